import type pg from 'pg';
import type { ControlEvent, Placed } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { type Row, SELECT_COLUMNS } from '#db/log/columns.ts';
import { allControl, placeRows } from '#db/log/read.ts';

const READ_STREAMS = `
  select ${SELECT_COLUMNS} from daybook.log_kept where shard = $1 and stream = any($2) and stream is not null
  union all
  select ${SELECT_COLUMNS} from daybook.log
    where shard = $1 and stream = any($2) and stream is not null and position > daybook.kept_through($1)
  order by position`;

/**
 * Several control streams at once, in the order of the log.
 * @throws {UnreadableEventError} at a row that is not of the vocabulary.
 */
export async function readStreams(
  client: pg.ClientBase,
  streams: readonly string[],
): Promise<Placed<ControlEvent>[]> {
  if (streams.length === 0) return [];
  const result = await client.query<Row>({
    name: 'read_streams',
    text: READ_STREAMS,
    values: [SHARD, streams],
    rowMode: 'array',
  });
  return allControl(placeRows(result.rows));
}
