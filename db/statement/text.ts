import { showTable } from '#db/command-line/table.ts';
import { LINE_KINDS, type Statement } from '#db/statement/document.ts';
import type { ShownDocument } from '#db/statement/invoices.ts';
import {
  adjustmentText,
  dollars,
  KIND_TITLES,
  lineDetail,
  periodText,
  rateText,
} from '#db/statement/words.ts';

/** A statement as text for a terminal. Pure. */

// Quoted: a line break in a text of others must not look like a line of the statement.
const quoted = (text: string): string => JSON.stringify(text);

export function statementText(statement: Statement, document: ShownDocument | null): string {
  const { account, account_name: name, key, end_user: endUser, lines, totals, is_final } = statement;
  const title = document?.title ?? 'Statement';
  const parts = LINE_KINDS.map((kind) => ({ kind, own: lines.filter((line) => line.kind === kind) }));
  return [
    `${title} of ${quoted(name)} (${account}), ${periodText(statement)}`,
    ...(statement.issuer === null ? [] : [`Issued by ${quoted(statement.issuer.name)}`]),
    ...(document === null || document.corrects === null
      ? []
      : [`Corrections of calls of invoice ${document.corrects}`]),
    ...(key === null ? [] : [`Only key ${key}`]),
    ...(endUser === null ? [] : [`Only end user ${endUser}`]),
    ...parts.flatMap(({ kind, own }) =>
      own.length === 0
        ? []
        : [
            `\n${KIND_TITLES[kind]}`,
            showTable(
              ['MODEL', 'OF', 'REQUESTS', 'INPUT', 'CACHE READ', 'OUTPUT', 'DOLLARS'],
              own.map((line) => [
                line.model,
                quoted(lineDetail(line)),
                String(line.requests + line.corrections),
                String(line.input_tokens + line.abandoned_tokens),
                String(line.cache_read_tokens),
                String(line.output_tokens),
                dollars(line.cost_nanousd),
              ]),
            ),
          ],
    ),
    '',
    `Total: ${totals.requests} requests, ${totals.cost_nanousd} nano-dollars, ` +
      `${dollars(totals.cost_nanousd)} dollars`,
    ...(totals.credited_nanousd === '0'
      ? []
      : [`Billed by credit notes: ${dollars(totals.credited_nanousd)} dollars of these corrections`]),
    `Amount: ${totals.amount} ${totals.currency}. ${rateText(statement)}`,
    ...(totals.estimated === 0
      ? []
      : [`Estimated: ${totals.estimated} requests, ${dollars(totals.estimated_nanousd)} dollars`]),
    ...balanceLines(statement),
    ...(is_final ? [] : ['The period is not over, so the statement is not final.']),
  ].join('\n');
}

function balanceLines({ balance, top_ups: topUps, adjustments }: Statement): string[] {
  return [
    ...topUps.map(
      ({ at, amount_nanousd: amount, reference }) =>
        `Top-up: ${at}, ${dollars(amount)} dollars, ${quoted(reference)}`,
    ),
    ...adjustments.map(
      (each) => `Adjusted usage: ${each.at}, ${adjustmentText(each)}, ${quoted(each.reason)}`,
    ),
    ...(balance === null
      ? []
      : [
          `Prepaid balance: ${dollars(balance.opening_nanousd)} + ${dollars(balance.top_ups_nanousd)} ` +
            `topped up - ${dollars(balance.charges_nanousd)} charged + ` +
            `${dollars(balance.adjustments_nanousd)} adjusted = ${dollars(balance.closing_nanousd)} dollars`,
        ]),
  ];
}
