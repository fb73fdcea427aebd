import type pg from 'pg';
import { isControl } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { streamOf } from '#db/events/streams.ts';
import { LINE_COLUMNS, queryLines, type Read, UnreadableEventError } from '#db/log/read.ts';

const READ_STREAMS = `select ${LINE_COLUMNS} from daybook.control_event
  where shard = $1 and stream = any($2) order by position`;
const READ_NEWEST = `select ${LINE_COLUMNS} from daybook.control_event
  where shard = $1 and stream = $2
    and version > (select version - $3 from daybook.stream_head where stream = $2)
  order by position desc`;

/**
 * Several control streams at once, in the order of the log, with the rows that are not of the vocabulary in
 * their places.
 * @throws {UnreadableEventError} at an event that belongs to another stream.
 */
export async function readStreams(client: pg.ClientBase, streams: readonly string[]): Promise<Read[]> {
  if (streams.length === 0) return [];
  const rows = await queryLines(client, 'read_streams', READ_STREAMS, [SHARD, streams]);
  for (const row of rows)
    if (!(row instanceof UnreadableEventError) && !(isControl(row) && streams.includes(streamOf(row.event))))
      throw new UnreadableEventError(row.position, new Error(`it belongs to none of ${streams.join(', ')}`));
  return rows;
}

/**
 * The newest events of one control stream, newest first, with the rows that are not of the vocabulary in
 * their places.
 * @param limit the most events to return; the version of the last is one more than the number of older ones.
 */
export async function readNewestOfStream(
  client: pg.ClientBase,
  stream: string,
  limit: number,
): Promise<Read[]> {
  return queryLines(client, 'read_newest_of_stream', READ_NEWEST, [SHARD, stream, limit]);
}
