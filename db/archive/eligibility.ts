import { type Expression, sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { Partition } from '#db/archive/export.ts';
import { SHARD } from '#db/log/append.ts';
import { db, onlyRowOf, type Result, rowOf } from '#db/schema/query.ts';

/** The readers of a full partition, each as the position up to which it no longer reads. */
export type RetentionNeeds = {
  head: number;
  /** Before the oldest request that can be open, and before the events a recovery reads for leases. */
  instances: number;
  /** The position that every projection has reached. */
  projections: number;
};

/** The next partition to archive, and the number of full partitions from it on. */
export type Candidate = Partition & { full: number };

const HEAD = sql<Result<'daybook.head'>>`daybook.head(${SHARD}::smallint)`;
/** A position as a number. */
const numberOf = (position: Expression<unknown>) => sql<number>`(${position})::float8`;

export async function readCandidate(client: ClientBase): Promise<Candidate | null> {
  const query = db
    .selectFrom('daybook.log_partition as p')
    .select(['p.number', 'p.name'])
    .select(({ ref, cast, selectFrom }) => [
      numberOf(ref('p.first_position')).as('first_position'),
      numberOf(ref('p.end_position')).as('end_position'),
      selectFrom('daybook.log_partition as f')
        .select(({ fn }) => cast<number>(fn.countAll(), 'integer').as('full'))
        .whereRef('f.number', '>=', 'p.number')
        .where('f.end_position', '<=', sql<string>`${HEAD} + 1`)
        .$asScalar()
        .$notNull()
        .as('full'),
    ])
    .where('p.archived_at', 'is', null)
    .orderBy('p.number')
    .limit(1);
  return (await rowOf(client, query)) ?? null;
}

export async function readRetentionNeeds(client: ClientBase): Promise<RetentionNeeds> {
  const openFrom = db
    .selectFrom('daybook.instance')
    .select(({ fn }) => fn.min('open_from').as('position'))
    .where('closed_at', 'is', null);
  // Closing a lease reads the settlements after its last report, while its window lasts; see
  // daybook.close_leases.
  const minute = sql<number>`floor(extract(epoch from statement_timestamp()) / 60)::integer`;
  const reported = db
    .selectFrom('daybook.lease as l')
    .innerJoin('daybook.allowance as a', 'a.id', 'l.allowance')
    .select(sql<string>`min(l.position) + 1`.as('position'))
    .where('l.closed', '=', false)
    .where(sql<boolean>`l.granted - l.returned > l.used`)
    .where('a.window_start', '>=', sql<number>`daybook.window_start(a.window_kind, ${minute} - 1)`);
  const projected = db.selectFrom('daybook.projection').select(({ fn }) => fn.min('position').as('position'));
  return onlyRowOf(
    client,
    db.selectNoFrom([
      numberOf(HEAD).as('head'),
      sql<number>`least((${openFrom}), (${reported}), ${HEAD} + 1)::float8 - 1`.as('instances'),
      numberOf(projected).as('projections'),
    ]),
  );
}

/**
 * Why a partition can't be archived yet; null if it can.
 * @param keep how many of the newest full partitions stay attached in any case.
 */
export function retentionReason(
  { end_position, full }: Candidate,
  needs: RetentionNeeds,
  keep: number,
): string | null {
  const last = end_position - 1;
  if (needs.head < last) return 'it is not full yet';
  if (full <= keep) return `the newest ${keep} full ones are kept`;
  if (needs.projections < last) return `the projections have reached position ${needs.projections}`;
  if (needs.instances < last)
    return `open requests or leases need the events after position ${needs.instances}`;
  return null;
}
