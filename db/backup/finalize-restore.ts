import type { Client } from 'pg';
import { recoverInstance, registerInstance, retireInstance } from '#db/instances/instance.ts';

/** The work in progress at the time of the backup, which a restore ends. */
export type FinalizedRestore = {
  /** Requests in progress, whose outcome is unknown. Each is charged its full reservation. */
  abandoned: number;
  /** Webhook deliveries in progress, which are not sent any more. */
  undelivered: number;
};

const IDENTITIES = `select a.attrelid::regclass::text as table, a.attname as column
  from pg_attribute a join pg_class c on c.oid = a.attrelid
  where c.relnamespace = 'daybook'::regnamespace and a.attidentity <> ''`;

/**
 * Finalizes a restore, within the transaction that loaded the tables: advances sequences past the restored
 * values, and closes the instances that were running when the backup was taken.
 * @param hasProjections whether the projections were restored; otherwise they are detached until rebuilt.
 */
export async function finalizeRestore(client: Client, hasProjections: boolean): Promise<FinalizedRestore> {
  const { rows: identities } = await client.query<{ table: string; column: string }>(IDENTITIES);
  for (const { table, column } of identities) {
    await client.query(
      `select setval(pg_get_serial_sequence($1, $2), max("${column}")) from ${table}
        having max("${column}") is not null`,
      [table, column],
    );
  }
  const abandoned = await closeInstances(client);
  const { rowCount } = await client.query(
    `update daybook.webhook_delivery set state = 'failed', ended_at = clock_timestamp()
      where state = 'waiting'`,
  );
  if (!hasProjections)
    await client.query('update daybook.projection set position = 0, position_at = null, is_live = false');
  return { abandoned, undelivered: rowCount ?? 0 };
}

/** Recovers every instance that was not closed. @returns the number of abandoned requests. */
async function closeInstances(client: Client): Promise<number> {
  const { rows: open } = await client.query<{ id: number }>(
    'select id from daybook.instance where closed_at is null order by id',
  );
  if (open.length === 0) return 0;
  const recoverer = await registerInstance(client, 'restore');
  let abandoned = 0;
  for (const { id } of open) abandoned += await recoverInstance(client, id, recoverer);
  await retireInstance(client, recoverer);
  return abandoned;
}
