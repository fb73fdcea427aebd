import { sql } from 'kysely';
import type { Client } from 'pg';
import { countOf, db, rowsOf } from '#db/schema/query.ts';
import { RESTORED_FAULT } from '#db/spend/sink-status.ts';
import { recoverInstance, registerInstance, retireInstance } from '#db/instances/instance.ts';

/** The work in progress at the time of the backup, which a restore ends. */
export type FinalizedRestore = {
  /** Requests in progress, whose outcome is unknown. Each is charged its full reservation. */
  abandoned: number;
  /** Deliveries of alerts in progress, which are not sent any more. */
  undelivered: number;
  /** Sinks of spend events that are now paused: the original may still deliver to their receivers. */
  paused_sinks: number;
};

const identities = db
  .selectFrom('pg_catalog.pg_attribute as a')
  .innerJoin('pg_catalog.pg_class as c', 'c.oid', 'a.attrelid')
  .select('a.attname as column')
  .select(({ ref }) => sql<string>`${ref('a.attrelid')}::regclass::text`.as('table'))
  .where('c.relnamespace', '=', sql<number>`'daybook'::regnamespace`)
  .where('a.attidentity', '<>', '');

/**
 * Finalizes a restore, within the transaction that loaded the tables: advances sequences past the restored
 * values, closes the instances that were running when the backup was taken, and pauses all sinks.
 * @param hasProjections whether the projections were restored; otherwise they are detached until rebuilt.
 */
export async function finalizeRestore(client: Client, hasProjections: boolean): Promise<FinalizedRestore> {
  for (const { table, column } of await rowsOf(client, identities)) {
    await client.query(
      `select setval(pg_get_serial_sequence($1, $2), max("${column}")) from ${table}
        having max("${column}") is not null`,
      [table, column],
    );
  }
  const abandoned = await closeInstances(client);
  const undelivered = await countOf(
    client,
    db
      .updateTable('daybook.alert_delivery')
      .set(({ fn }) => ({ state: 'failed', ended_at: fn<Date>('clock_timestamp') }))
      .where('state', '=', 'waiting'),
  );
  const paused_sinks = await pauseSinks(client);
  if (!hasProjections)
    await countOf(
      client,
      db.updateTable('daybook.projection').set({ position: 0, position_at: null, is_live: false }),
    );
  return { abandoned, undelivered, paused_sinks };
}

/** Until an administrator resumes them. @returns how many delivered until now. */
function pauseSinks(client: Client): Promise<number> {
  const paused = db
    .updateTable('daybook.sink')
    .set(({ fn }) => ({ paused_at: fn<Date>('clock_timestamp'), holder: null, held_until: null }))
    .set({ failures: 0, failing_since: null, retry_at: null, fault: RESTORED_FAULT })
    .set({ test_requested_at: null, test_taken_at: null, tested_at: null, test_fault: null })
    .where('paused_at', 'is', null);
  return countOf(client, paused);
}

/** Recovers every instance that was not closed. @returns the number of abandoned requests. */
async function closeInstances(client: Client): Promise<number> {
  const open = await rowsOf(
    client,
    db.selectFrom('daybook.instance').select('id').where('closed_at', 'is', null).orderBy('id'),
  );
  if (open.length === 0) return 0;
  const recoverer = await registerInstance(client, 'restore');
  let abandoned = 0;
  for (const { id } of open) abandoned += await recoverInstance(client, id, recoverer);
  await retireInstance(client, recoverer);
  return abandoned;
}
