import { csvLine } from '#db/csv.ts';
import type { Statement, StatementLine } from '#db/statement/document.ts';

/**
 * A statement as CSV: its lines, so that the cost column adds up to the amount due. Corrections that credit
 * notes bill are subtracted by a line of their own. Pure.
 */

const COUNTS = [
  'requests',
  'estimated',
  'corrections',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
] as const satisfies readonly (keyof StatementLine)[];
const NAMES = ['kind', 'model', 'day', 'key', 'key_name', 'end_user', 'reference', 'reason'] as const;

export function statementCsv({ account, account_name: name, from, to, lines, totals }: Statement): string {
  return [
    csvLine([
      ...['account', 'account_name', 'from', 'to', ...NAMES, ...COUNTS],
      ...['estimated_nanousd', 'cost_nanousd', 'first_position', 'last_position'],
    ]),
    ...lines.map((line) =>
      csvLine([
        ...[account, name, from, to],
        ...NAMES.map((field) => line[field] ?? null),
        ...COUNTS.map((field) => line[field]),
        // Numbers: a negative amount as a text would be taken for a formula.
        ...[BigInt(line.estimated_nanousd), BigInt(line.cost_nanousd)],
        ...[line.first_position, line.last_position],
      ]),
    ),
    ...(totals.credited_nanousd === '0'
      ? []
      : [
          csvLine([
            ...[account, name, from, to, 'billed_by_credit_notes'],
            ...NAMES.slice(1).map(() => null),
            ...COUNTS.map(() => 0),
            ...[0n, -BigInt(totals.credited_nanousd), null, null],
          ]),
        ]),
  ].join('');
}
