import type pg from 'pg';
import { isControl } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { type Row, SELECT_COLUMNS } from '#db/log/columns.ts';
import { streamOf } from '#db/events/streams.ts';
import { placeRows, type Read, UnreadableEventError } from '#db/log/read.ts';

const READ_STREAMS = `
  select ${SELECT_COLUMNS} from daybook.log_kept where shard = $1 and stream = any($2) and stream is not null
  union all
  select ${SELECT_COLUMNS} from daybook.log
    where shard = $1 and stream = any($2) and stream is not null and position > daybook.kept_through($1)
  order by position`;

const ABOVE = 'version > (select version - $3 from daybook.stream_head where stream = $2)';
const READ_NEWEST = `
  select ${SELECT_COLUMNS} from daybook.log_kept where shard = $1 and stream = $2 and ${ABOVE}
  union all
  select ${SELECT_COLUMNS} from daybook.log
    where shard = $1 and stream = $2 and ${ABOVE} and position > daybook.kept_through($1)
  order by position desc`;

/**
 * Several control streams at once, in the order of the log, with the rows that are not of the vocabulary in
 * their places.
 * @throws {UnreadableEventError} at an event that belongs to another stream.
 */
export async function readStreams(client: pg.ClientBase, streams: readonly string[]): Promise<Read[]> {
  if (streams.length === 0) return [];
  const result = await client.query<Row>({
    name: 'read_streams',
    text: READ_STREAMS,
    values: [SHARD, streams],
    rowMode: 'array',
  });
  const rows = placeRows(result.rows);
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
  const result = await client.query<Row>({
    name: 'read_newest_of_stream',
    text: READ_NEWEST,
    values: [SHARD, stream, limit],
    rowMode: 'array',
  });
  return placeRows(result.rows);
}
