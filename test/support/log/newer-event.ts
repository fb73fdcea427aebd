import type { Store } from '#db/postgres/connect.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { AT, FIELDS } from '#db/log/columns.ts';
import { textCell } from '#db/log/line.ts';
import { connectAs } from './log-writer.ts';

/** The codes of a made-up next version. */
export const NEWER_TYPES = { notToSkip: 999, toSkip: 1999 } as const;

/** A control event of a type that this version doesn't know. */
type Newer = { type: number; stream: string; account?: string | null; key?: string | null };

/** Its line. */
export function newerLine({ type, stream, account, key }: Newer, version: number): string {
  const cells = FIELDS.map(() => '');
  cells[AT.type] = String(type);
  cells[AT.account] = account ?? '';
  cells[AT.key] = key ?? '';
  cells[AT.stream] = textCell(stream);
  cells[AT.version] = String(version);
  cells[AT.body] = textCell('{"actor":"newer","novel":true}');
  return `(${cells.join(',')})`;
}

/**
 * Appends such an event with the next version of its stream.
 * @returns its position.
 */
export async function appendNewer(store: Store, event: Newer): Promise<number> {
  const client = await connectAs(store, 'relay');
  try {
    const instance = await registerInstance(client, 'newer');
    const head = await client.query<{ version: number }>(
      'select version from daybook.stream_head where stream = $1',
      [event.stream],
    );
    const line = newerLine(event, 1 + (head.rows[0]?.version ?? 0));
    const { rows } = await client.query<{ position: string }>(
      'select daybook.append_control(0::smallint, $1, 1, array[$2], array[null::text]) as position',
      [instance, line],
    );
    return Number(rows[0]?.position);
  } finally {
    await client.end();
  }
}
