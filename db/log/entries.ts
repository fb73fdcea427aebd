import type pg from 'pg';
import { SHARD } from '#db/log/append.ts';
import { entryOf } from '#db/log/line.ts';
import type { Cell } from '#db/schema/query.ts';

/** The columns of `LINE_COLUMNS`, as pg returns them. */
type EntryRow = [
  position: Cell<'daybook.control_event', 'position'>,
  atUs: string,
  instance: Cell<'daybook.control_event', 'instance'>,
  line: Cell<'daybook.control_event', 'line'>,
];

/**
 * Runs a query of `LINE_COLUMNS`.
 * @param name of the prepared statement.
 * @returns the entries, which leaf hashes cover.
 */
export async function queryEntries(
  client: pg.ClientBase,
  name: string,
  text: string,
  values: unknown[],
): Promise<string[]> {
  const { rows } = await client.query<EntryRow>({ name, text, values, rowMode: 'array' });
  return rows.map(([position, atUs, instance, line]) =>
    entryOf({ shard: SHARD, position: Number(position), atUs, instance }, line),
  );
}
