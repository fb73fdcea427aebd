import type { Selectable } from 'kysely';
import type { ClientBase } from 'pg';
import type { SinkTable } from '#db/schema/tables.ts';
import { SHARD } from '#db/log/append.ts';

/**
 * The state of delivery of sinks in the database. A worker claims a sink for some seconds, and extends the
 * claim with everything that it records. Recording compares the position: it changes nothing where another
 * worker or an administrator changed it since, so a slow worker can't move a sink back.
 */

/** How long a claim lasts without a record: longer than a delivery. */
const CLAIM_S = 20;

const IS_FREE = `(s.holder is null or s.holder = $1 or s.held_until < statement_timestamp()
    or exists (select from daybook.instance i
      where i.id = s.holder and (i.dead_at is not null or i.closed_at is not null)))`;
const IS_DUE = `s.paused_at is null and (s.retry_at is null or s.retry_at <= statement_timestamp())`;

const WANTS_TEST = `s.test_requested_at is not null and s.test_taken_at is null`;

const DUE = `select s.id, ${WANTS_TEST} as wants_test,
    s.position < daybook.head(${SHARD}::smallint) and ${IS_DUE} and ${IS_FREE} as is_due
  from daybook.sink s order by s.id`;
const CLAIM = `update daybook.sink s set holder = $1, held_until = clock_timestamp() + interval '${CLAIM_S} s'
  where s.id = $2 and ${IS_DUE} and ${IS_FREE}
  returning s.name, s.sealed_config, s.account, s.position::float8 as position, s.failures`;
const ADVANCE = `update daybook.sink s set position = $4, delivered = delivered + $5,
    delivered_at = case when $5 > 0 then clock_timestamp() else delivered_at end,
    failures = 0, failing_since = null, fault = null, retry_at = null,
    held_until = clock_timestamp() + interval '${CLAIM_S} s'
  where s.id = $2 and s.holder = $1 and s.position = $3 and s.paused_at is null`;
const FAIL = `update daybook.sink s set failures = failures + 1,
    failing_since = coalesce(failing_since, clock_timestamp()), fault = $4,
    retry_at = clock_timestamp() + $5 * interval '1 millisecond'
  where s.id = $2 and s.holder = $1 and s.position = $3`;
const TAKE_TEST = `update daybook.sink s set test_taken_at = clock_timestamp()
  where s.id = $1 and ${WANTS_TEST}
  returning s.name, s.sealed_config`;
const END_TEST = `update daybook.sink set tested_at = clock_timestamp(), test_fault = $2
  where id = $1 and test_taken_at is not null`;
const RELEASE = `update daybook.sink set holder = null, held_until = null where holder = $1`;

export type ClaimedSink = Pick<Selectable<SinkTable>, 'name' | 'sealed_config' | 'account' | 'failures'> & {
  position: number;
};
type DueSink = Pick<Selectable<SinkTable>, 'id'> & { is_due: boolean; wants_test: boolean };
export type SealedSink = Pick<Selectable<SinkTable>, 'name' | 'sealed_config'>;

/** All sinks, and whether this worker may deliver to each of them now, and is to send a test event. */
export async function readDueSinks(client: ClientBase, worker: number): Promise<DueSink[]> {
  return (await client.query<DueSink>(DUE, [worker])).rows;
}

/** Claims a sink. @returns null where it isn't due any more, or another worker has it. */
export async function claimSink(client: ClientBase, worker: number, id: string): Promise<ClaimedSink | null> {
  const { rows } = await client.query<ClaimedSink>(CLAIM, [worker, id]);
  return rows[0] ?? null;
}

/** Where a worker is with a sink: records are compared with it. */
export type SinkPlace = { worker: number; id: string; position: number };

/**
 * Records that everything up to a position was acknowledged.
 * @param delivered the number of events.
 * @returns false where the sink was paused, moved, removed or claimed by another worker meanwhile.
 */
export async function advanceSink(
  client: ClientBase,
  { worker, id, position }: SinkPlace,
  upTo: number,
  delivered: number,
): Promise<boolean> {
  const { rowCount } = await client.query(ADVANCE, [worker, id, position, upTo, delivered]);
  return rowCount === 1;
}

/** Records a failed delivery. @param pauseMs before the next one. */
export async function failSink(
  client: ClientBase,
  { worker, id, position }: SinkPlace,
  fault: string,
  pauseMs: number,
): Promise<void> {
  await client.query(FAIL, [worker, id, position, fault, pauseMs]);
}

/** Takes the test that an administrator asked for. @returns null where another worker has taken it. */
export async function takeTest(client: ClientBase, id: string): Promise<SealedSink | null> {
  const { rows } = await client.query<SealedSink>(TAKE_TEST, [id]);
  return rows[0] ?? null;
}

/** Records the end of a test. @param fault null: the receiver accepted the event. */
export async function endTest(client: ClientBase, id: string, fault: string | null): Promise<void> {
  await client.query(END_TEST, [id, fault]);
}

/** Ends all claims of a worker, so that another one needn't wait for their end. */
export async function releaseSinks(client: ClientBase, worker: number): Promise<void> {
  await client.query(RELEASE, [worker]);
}
