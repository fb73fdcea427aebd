import { type RawBuilder, sql } from 'kysely';
import { jsonArrayFrom } from 'kysely/helpers/postgres';
import type { ClientBase } from 'pg';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';
import { explainAppendError } from '#db/log/occupied-position.ts';
import type { OutputStatus } from '#db/diagnostics/droppable-output.ts';
import { db, onlyRowOf, rowOf, rowsOf } from '#db/schema/query.ts';

/** Registers this process as an instance that may append. @returns its number, which is never reused. */
export async function registerInstance(client: ClientBase, name: string): Promise<number> {
  const query = db.selectNoFrom(sql<number>`daybook.register_instance(${name})`.as('id'));
  return (await onlyRowOf(client, query)).id;
}

/** What a running call is charged if its instance dies before the next heartbeat. */
export type CallProgress = { request: string; tokens: number; costNanousd: number };

/**
 * Renews an instance.
 * @param openFrom the position of its oldest open request; null for an instance that never has any.
 * @param progress of its running calls.
 * @returns Postgres' clock; null if the instance was declared dead.
 */
export async function heartbeat(
  client: ClientBase,
  instance: number,
  openFrom: number | null,
  progress: readonly CallProgress[] = [],
): Promise<Date | null> {
  const query = db.selectNoFrom(nowAfterHeartbeat(instance, openFrom, progress).as('now'));
  return (await retryTransaction(() => onlyRowOf(client, query, 'heartbeat'))).now;
}

/**
 * Renews an instance as {@link heartbeat} does, and reads its peers with the same statement.
 * @returns null if the instance was declared dead.
 */
export async function heartbeatWithPeers(
  client: ClientBase,
  instance: number,
  openFrom: number | null,
  progress: readonly CallProgress[] = [],
): Promise<{ now: Date; peers: Peer[] } | null> {
  const query = db
    .selectNoFrom(nowAfterHeartbeat(instance, openFrom, progress).as('now'))
    .select(jsonArrayFrom(peersOf(instance)).as('peers'));
  const { now, peers } = await retryTransaction(() => onlyRowOf(client, query, 'heartbeat_with_peers'));
  return now && { now, peers };
}

function nowAfterHeartbeat(
  instance: number,
  openFrom: number | null,
  progress: readonly CallProgress[],
): RawBuilder<Date | null> {
  const columns =
    progress.length === 0
      ? [null, null, null]
      : [
          progress.map(({ request }) => request),
          progress.map(({ tokens }) => tokens),
          progress.map(({ costNanousd }) => costNanousd),
        ];
  const [request, tokens, cost] = columns;
  return sql<Date | null>`daybook.heartbeat(${instance}, ${openFrom}, ${request}, ${tokens}, ${cost})`;
}

/** Reports the diagnostic output of this instance's process, for the status of the service. */
export async function reportOutput(
  client: ClientBase,
  instance: number,
  { dropped, failure }: OutputStatus,
): Promise<void> {
  await rowOf(client, sql`select daybook.report_output(${instance}, ${dropped}, ${failure})`);
}

/** Ends an instance that has no open requests. */
export async function retireInstance(client: ClientBase, instance: number): Promise<void> {
  await retryTransaction(() => rowOf(client, sql`select daybook.retire_instance(${instance})`));
}

/** Another instance that may have open requests, with its last heartbeat as text. */
export type Peer = { id: number; heartbeat: string; isDead: boolean };

/** The other instances that are alive, or dead and not recovered yet. */
export function readPeers(client: ClientBase, self: number): Promise<Peer[]> {
  return rowsOf(client, peersOf(self), 'read_peers');
}

const peersOf = (self: number) =>
  db
    .selectFrom('daybook.instance')
    .select('id')
    .select(sql<string>`heartbeat_at::text`.as('heartbeat'))
    .select(sql<boolean>`dead_at is not null`.as('isDead'))
    .where('closed_at', 'is', null)
    .where('id', '<>', self);

/**
 * Declares an instance dead, so that it can't append or spend any more, and queues its recovery for a worker.
 * @returns false if no worker lives.
 */
export async function requestRecovery(client: ClientBase, dead: number): Promise<boolean> {
  const query = db.selectNoFrom(sql<boolean>`daybook.request_recovery(${dead})`.as('isQueued'));
  return (await retryTransaction(() => onlyRowOf(client, query))).isQueued;
}

/**
 * Declares an instance dead, so that it can't append any more, and ends its open requests. Both steps can be
 * repeated: if a recoverer dies in between, the next one does the rest.
 * @returns how many requests were abandoned; 0 if another recoverer was first.
 */
export async function recoverInstance(client: ClientBase, dead: number, by: number): Promise<number> {
  await retryTransaction(() => rowOf(client, sql`select daybook.fence_instance(${dead})`));
  const query = db.selectNoFrom(sql<number>`daybook.recover_instance(${dead}, ${by})`.as('abandoned'));
  const { abandoned } = await retryTransaction(() => onlyRowOf(client, query)).catch((error: unknown) =>
    Promise.reject(explainAppendError(error)),
  );
  return abandoned;
}
