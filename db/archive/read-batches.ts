import { sql } from 'kysely';
import { batchLineSql } from '#db/archive/line.ts';
import { SHARD } from '#db/log/append.ts';
import { db, type Placeholders, prepare } from '#db/schema/query.ts';

/** Batches that end above one position up to another. */
type Stretch = { after: string; upTo: string };

const LINES = sql<string>`string_agg(${sql.raw(batchLineSql('l', 'b'))} || e'\n' || l.events || e'\n', ''
  order by l.last_position)`;

/**
 * Reads batches as the text of an archive file, which PostgreSQL puts together, with the number of their
 * events. The text is null without batches.
 * @param name of the prepared statement.
 * @param table the log, or a table with its columns.
 */
export const readBatchText = (name: string, table: string = 'daybook.log') =>
  prepare(name, ({ after, upTo }: Placeholders<Stretch>) =>
    db
      .selectFrom(`${table} as l` as 'daybook.log as l')
      .innerJoin('daybook.log_batch as b', (join) =>
        join.onRef('b.shard', '=', 'l.shard').onRef('b.last_position', '=', 'l.last_position'),
      )
      .select(LINES.$castTo<string | null>().as('text'))
      .select(sql<number>`coalesce(sum(l.event_count), 0)::float8`.as('count'))
      .where('l.shard', '=', SHARD)
      .where('l.last_position', '>', after)
      .where('l.last_position', '<=', upTo),
  );
