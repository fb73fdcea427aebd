import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { Partition } from '#db/archive/export.ts';
import { SHARD } from '#db/log/append.ts';
import { rowOf } from '#db/schema/query.ts';

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

const READ_CANDIDATE = sql<Candidate>`select p.number, p.name,
  p.first_position::float8 as first_position, p.end_position::float8 as end_position,
    (select count(*)::integer from daybook.log_partition f where f.number >= p.number
      and f.end_position <= daybook.head(${SHARD}::smallint) + 1) as full
  from daybook.log_partition p where p.archived_at is null order by p.number limit 1`;

// Closing a lease reads the settlements after its last report, while its window lasts; see
// daybook.close_leases.
const READ_NEEDS = sql<RetentionNeeds>`select daybook.head(${SHARD}::smallint)::float8 as head,
    least(
      (select min(open_from) from daybook.instance where closed_at is null),
      (select min(l.position) + 1 from daybook.lease l join daybook.allowance a on a.id = l.allowance
        where not l.closed and l.granted - l.returned > l.used
          and a.window_start >= daybook.window_start(a.window_kind, floor(extract(epoch
            from statement_timestamp()) / 60)::integer - 1)),
      daybook.head(${SHARD}::smallint) + 1)::float8 - 1 as instances,
    (select min(position) from daybook.projection)::float8 as projections`;

export async function readCandidate(client: ClientBase): Promise<Candidate | null> {
  return (await rowOf(client, READ_CANDIDATE)) ?? null;
}

export async function readRetentionNeeds(client: ClientBase): Promise<RetentionNeeds> {
  return (await rowOf(client, READ_NEEDS)) as RetentionNeeds;
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
