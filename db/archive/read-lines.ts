import { sql } from 'kysely';
import { BATCH_SQL, EVENT_SQL } from '#db/archive/line.ts';
import { SHARD } from '#db/log/append.ts';
import { db, type Placeholders, prepare } from '#db/schema/query.ts';

/** Reads rows of the log as lines of an archive file, which PostgreSQL formats. */

/** The positions above one up to another. */
type Stretch = { after: string; upTo: string };

const EVENT = sql<string>`${sql.raw(EVENT_SQL)}`;
const BATCH = sql<string>`${sql.raw(BATCH_SQL)}`;

/**
 * The events of a range as lines in one text: no row costs a message of its own. It is null without events.
 * @param name of the prepared statement.
 * @param table the log, or a table with its columns.
 */
export const readEventLines = (name: string, table: string = 'daybook.log') =>
  prepare(name, ({ after, upTo }: Placeholders<Stretch>) =>
    db
      .selectFrom(table as 'daybook.log')
      .select(sql<string | null>`string_agg(${EVENT}, e'\\n' order by position)`.as('lines'))
      .where('shard', '=', SHARD)
      .where('position', '>', after)
      .where('position', '<=', upTo),
  );

/** The batches that end within a range: the position where each does, and its line. */
export const readBatchLines = prepare('archive_batches', ({ after, upTo }: Placeholders<Stretch>) =>
  db
    .selectFrom('daybook.log_batch')
    .select(['last_position', BATCH.as('line')])
    .where('shard', '=', SHARD)
    .where('last_position', '>', after)
    .where('last_position', '<=', upTo)
    .orderBy('last_position'),
);

/** The line of the first batch that ends above a position, and the position where it ends. */
export const nextBatchLine = (after: number) =>
  db
    .selectFrom('daybook.log_batch')
    .select([BATCH.as('line'), 'last_position'])
    .where('shard', '=', SHARD)
    .where('last_position', '>', String(after))
    .orderBy('last_position')
    .limit(1);

/** The retained control events of a range, at most `limit` of them. */
export const readRetainedLines = prepare(
  'archive_retained',
  ({ after, upTo, limit }: Placeholders<Stretch & { limit: number }>) =>
    db
      .selectFrom('daybook.log_kept')
      .select(EVENT.as('line'))
      .where('shard', '=', SHARD)
      .where('position', '>', after)
      .where('position', '<=', upTo)
      .orderBy('position')
      .limit(limit),
);

/** The events of one request from one position to another, each with the format that its batch names. */
export const requestLines = (request: string, from: number, to: number, limit: number) =>
  db
    .selectFrom('daybook.log as l')
    .select(EVENT.as('line'))
    .select(({ selectFrom }) =>
      selectFrom('daybook.log_batch as b')
        .select(({ cast }) => cast<string>('b.format', 'text').as('format'))
        .whereRef('b.shard', '=', 'l.shard')
        .whereRef('b.last_position', '>=', 'l.position')
        .orderBy('b.last_position')
        .limit(1)
        // Every event at or below the head is in a batch.
        .$asScalar()
        .$notNull()
        .as('format'),
    )
    .where('shard', '=', SHARD)
    .where('position', '>=', String(from))
    .where('position', '<=', String(to))
    .where('request', '=', request)
    .orderBy('position')
    .limit(limit);
