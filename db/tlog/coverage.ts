import { sql } from 'kysely';
import { SHARD } from '#db/log/append.ts';
import { db } from '#db/schema/query.ts';
import { selectNewestCheckpoint } from '#db/tlog/checkpoint-store.ts';

/**
 * The newest checkpoint with its age, the number of events of the newest epoch that no checkpoint covers, and
 * the age of the oldest of them.
 */
export const selectCoverage = () =>
  db
    .selectFrom(sql`(values (1))`.as<'one'>(sql`one`))
    .leftJoinLateral(selectNewestCheckpoint().select(['size', 'published_at']).as('c'), (join) =>
      join.onTrue(),
    )
    .select([
      sql<number | null>`c.size::float8`.as('size'),
      sql<number | null>`extract(epoch from statement_timestamp() - c.published_at)::float8`.as('age_secs'),
      sql<number>`daybook.head(${SHARD})::float8 - coalesce(c.size, 0)::float8`.as('uncovered'),
      sql<number | null>`extract(epoch from statement_timestamp() - (
        select at from daybook.log_batch where shard = ${SHARD} and last_position > coalesce(c.size, 0)
        order by last_position limit 1))::float8 * 1000`.as('uncovered_ms'),
    ]);
