import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { type CopyTable, differingColumns } from '#db/audit/verify/copies.ts';
import type { CorrectionLine } from '#db/audit/verify/log-verifier.ts';
import { AT, AT_US } from '#db/log/columns.ts';
import { db, onlyRowOf, type Placeholders, prepare } from '#db/schema/query.ts';

/** Verifies `daybook.correction`, which has the corrections of requests once more. */

/** The columns that are fields of the line. */
export const CORRECTION_FIELDS = [
  'request',
  'account',
  'key',
  'model',
  'route',
  'upstream',
  'end_user',
  'session',
  'tags',
  'status',
  'end_reason',
  'cost_nanousd',
  'upstream_cost_nanousd',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'hold_tokens',
] as const satisfies readonly (keyof typeof AT)[];
/** The columns that are in its body. */
const ORIGIN_COLUMNS = ['reference', 'reason', 'adjusted_by'] as const;

/** The columns that are compared beside position and time. */
export const CORRECTION_COLUMNS = [...CORRECTION_FIELDS, ...ORIGIN_COLUMNS] as const;

/** A row of the table, each column as text; `at` is null where it is no time. */
export type CorrectionRow = { position: string; at: string | null } & Record<
  (typeof CORRECTION_COLUMNS)[number],
  string | null
>;

/** The columns in which a row differs from its event, as text; null if it agrees. */
export function correctionDifference(
  row: CorrectionRow,
  { at, cells }: Pick<CorrectionLine, 'at' | 'cells'>,
): string | null {
  const fields = CORRECTION_FIELDS.map((name) => [name, cells[AT[name]] ?? null] as const);
  return differingColumns(row, { at, ...Object.fromEntries(fields), ...originOf(cells[AT.body] ?? '') });
}

/** Nothing where the body is no JSON, which is a finding of the log itself. */
function originOf(body: string): Record<string, unknown> {
  try {
    const fields = JSON.parse(body) as Record<string, unknown>;
    return Object.fromEntries(ORIGIN_COLUMNS.map((name) => [name, fields[name]]));
  } catch {
    return {};
  }
}

const readRows = prepare(
  'verify_corrections',
  ({ after, upTo }: Placeholders<{ after: string; upTo: string }>) =>
    db
      .selectFrom('daybook.correction')
      .select(sql<string>`position::text`.as('position'))
      .select(sql<string | null>`case when isfinite(at) then (${sql.raw(AT_US)})::text end`.as('at'))
      .select(CORRECTION_COLUMNS.map((name) => sql<string | null>`${sql.ref(name)}::text`.as(name)))
      .where('position', '>', after)
      .where('position', '<=', upTo)
      .orderBy('daybook.correction.position'),
);

export const CORRECTIONS: CopyTable<CorrectionLine, CorrectionRow> = {
  name: 'correction',
  kind: 'a correction',
  read: (client, after, upTo) => readRows(client, { after: String(after), upTo: String(upTo) }),
  differenceOf: correctionDifference,
};

/** How many corrections are of events before a position. */
export async function countCorrectionsBefore(client: ClientBase, position: number): Promise<number> {
  const query = db
    .selectFrom('daybook.correction')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('position', '<', String(position));
  return Number((await onlyRowOf(client, query)).count);
}
