import { createHash } from 'node:crypto';
import type { ClientBase } from 'pg';
import { PAGE_EVENTS } from '#db/archive/bounds.ts';
import { Manifest } from '#db/archive/manifest.ts';
import { type CopyTable, differingColumns } from '#db/audit/verify/copies.ts';
import { checkEvent } from '#db/audit/verify/event.ts';
import type { ControlLine } from '#db/audit/verify/log-verifier.ts';
import { BELOW_ALL_POSITIONS } from '#db/audit/verify/pages.ts';
import type { PartitionRow } from '#db/audit/verify/tables.ts';
import { hashText } from '#db/audit/verify/tree.ts';
import type { Verification } from '#db/audit/verify/verification.ts';
import { SHARD } from '#db/log/append.ts';
import { AT, AT_US } from '#db/log/columns.ts';
import { type Cells, entryOf } from '#db/log/line.ts';
import type { Cell } from '#db/schema/query.ts';

/** Verifies `daybook.control_event`, which has the control events of the log once more. */

const TABLE = 'control_event';

/** A row of the table, each column as text. */
type Row = {
  position: string;
  at: string | null;
  instance: string | null;
  version: string | null;
  type: string | null;
  stream: Cell<'daybook.control_event', 'stream'> | null;
  account: Cell<'daybook.control_event', 'account'>;
  key: Cell<'daybook.control_event', 'key'>;
  line: Cell<'daybook.control_event', 'line'> | null;
};

const READ = `select position::text, case when isfinite(at) then (${AT_US})::text end as at, instance::text,
    version::text, type::text, stream, account, key, line
  from daybook.control_event c
  where shard = $1 and position > $2 and position <= $3 order by c.position limit $4`;

async function readRows(
  client: ClientBase,
  after: number | string,
  upTo: number | string,
  limit: number | null,
): Promise<Row[]> {
  const { rows } = await client.query<Row>({
    name: 'verify_control',
    text: READ,
    values: [SHARD, after, upTo, limit],
  });
  return rows;
}

/** The columns in which a row differs from its line and the batch of that, as text; null if it agrees. */
function differenceOf(
  row: Row,
  { line, at, instance, cells }: Pick<ControlLine, 'line' | 'at' | 'instance' | 'cells'>,
): string | null {
  if (row.line !== line) return 'line';
  const expected: Omit<Row, 'position' | 'line'> = { at, instance, ...fieldsOf(cells) };
  return differingColumns(row, expected);
}

const fieldsOf = (cells: Cells) => ({
  version: cells[AT.version] ?? null,
  type: cells[AT.type] ?? null,
  stream: cells[AT.stream] ?? null,
  account: cells[AT.account] ?? null,
  key: cells[AT.key] ?? null,
});

export const CONTROL_EVENTS: CopyTable<ControlLine, Row> = {
  name: TABLE,
  kind: 'a control event',
  read: (client, after, upTo) => readRows(client, after, upTo, null),
  differenceOf,
};

/** Verifies the rows of partitions whose files are not available, by their manifests. */
export async function verifyArchivedControl(
  client: ClientBase,
  partitions: readonly PartitionRow[],
  verification: Verification,
): Promise<void> {
  for (const { number, first, last, manifest: stored } of partitions) {
    const digest = createHash('sha256');
    let count = 0;
    let isInvalid = false;
    const find = (position: number, problem: string): void => {
      isInvalid = true;
      verification.tableFindings.push({
        position,
        table: TABLE,
        problem: `the row of position ${position} ${problem}`,
      });
    };
    for (let after: number | string = first === 1 ? BELOW_ALL_POSITIONS : first - 1, isEnd = false; !isEnd;) {
      const rows = await readRows(client, after, last, PAGE_EVENTS);
      isEnd = rows.length < PAGE_EVENTS;
      for (const row of rows) {
        const position = Number(row.position);
        after = position;
        count++;
        const { line, at, instance } = textOf(row);
        const checked = checkEvent(line);
        const { problem, cells } = checked;
        const difference = cells && differenceOf(row, { line, at, instance, cells });
        const leaf = hashText(
          `\0${entryOf({ shard: SHARD, position, atUs: at, instance: Number(instance) }, line)}`,
        );
        digest.update(leaf, 'latin1');
        if (problem !== null) find(position, problem);
        else if (difference !== null) find(position, `has another ${difference} than its line`);
        else if (await verification.differsFromPublished(position, leaf))
          find(position, 'differs from the published leaf at this position');
        const stream = cells?.[AT.stream];
        if (cells === null || stream == null) continue;
        const event = problem === null ? checked.control : null;
        const version = Number(cells[AT.version]);
        verification.addControlEvent({ position, at, instance, line, cells, stream, version, event }, TABLE);
      }
    }
    const manifest = Manifest.safeParse(stored);
    if (
      isInvalid ||
      (manifest.success &&
        manifest.data.control_count === count &&
        manifest.data.control_sha256 === digest.digest('hex'))
    )
      continue;
    verification.tableFindings.push({
      position: first,
      to: last,
      table: TABLE,
      problem: `the ${count} rows of partition ${number} do not match its manifest`,
    });
  }
}

/** What the entry of a row has; an empty text for null, which no row has by itself. */
const textOf = ({ line, at, instance }: Row) => ({
  line: line ?? '',
  at: at ?? '',
  instance: instance ?? '',
});
