import type { Store } from '#db/postgres/connect.ts';
import { connectAs } from './log-writer.ts';

/** The codes of a made-up next version. */
export const NEWER_TYPES = { notToSkip: 999, toSkip: 1999 } as const;

/**
 * Appends an event of a type that this version doesn't know, with the next version of its stream.
 * @returns its position.
 */
export async function appendNewer(
  store: Store,
  {
    type,
    stream,
    account = null,
    key = null,
  }: { type: number; stream: string; account?: string | null; key?: string | null },
): Promise<number> {
  const client = await connectAs(store, 'relay');
  try {
    const { rows } = await client.query<{ position: string }>(
      `select daybook.append(_shard => 0::smallint, _instance => daybook.register_instance('newer'),
          _batch_no => 1, _type => array[$1::smallint], _account => array[$2], _key => array[$3],
          _stream => array[$4], _body => array['{"actor":"newer","novel":true}'],
          _version => array[1 + coalesce(
            (select version from daybook.stream_head where stream = $4), 0)::integer]) as position`,
      [type, account, key, stream],
    );
    return Number(rows[0]?.position);
  } finally {
    await client.end();
  }
}
