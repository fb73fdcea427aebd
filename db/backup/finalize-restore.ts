import type { Client } from 'pg';
import { recoverInstance, registerInstance, retireInstance } from '#db/instances/instance.ts';

/** What was open at the time of a backup, and was ended. */
export type TakenUp = {
  /** Calls that ran then: nobody knows how they ended. Each is charged with all that it held. */
  abandoned: number;
  /** Alerts that were on their way: they are not sent so much later. */
  undelivered: number;
};

const IDENTITIES = `select a.attrelid::regclass::text as table, a.attname as column from pg_attribute a join pg_class c on c.oid = a.attrelid
  where c.relnamespace = 'daybook'::regnamespace and a.attidentity <> ''`;

/**
 * Makes a system of loaded tables that can go on, within the transaction that has loaded them: numbers
 * are not given out twice, and nobody is waited for who lived when the backup was taken.
 * @param hasFigures whether the figures were loaded; otherwise they stand aside until they are made anew.
 */
export async function finalizeRestore(client: Client, hasFigures: boolean): Promise<TakenUp> {
  const { rows: identities } = await client.query<{ table: string; column: string }>(IDENTITIES);
  for (const { table, column } of identities) {
    await client.query(
      `select setval(pg_get_serial_sequence($1, $2), max("${column}")) from ${table} having max("${column}") is not null`,
      [table, column],
    );
  }
  const abandoned = await endInstances(client);
  const { rowCount } = await client.query(
    "update daybook.webhook_delivery set state = 'failed', ended_at = clock_timestamp() where state = 'waiting'",
  );
  if (!hasFigures)
    await client.query('update daybook.projection set position = 0, position_at = null, is_live = false');
  return { abandoned, undelivered: rowCount ?? 0 };
}

/**
 * Ends every instance that was not closed, with its calls and leases. @returns how many calls were abandoned.
 */
async function endInstances(client: Client): Promise<number> {
  const { rows: open } = await client.query<{ id: number }>(
    'select id from daybook.instance where closed_at is null order by id',
  );
  if (open.length === 0) return 0;
  const self = await registerInstance(client, 'restore');
  let abandoned = 0;
  for (const { id } of open) abandoned += await recoverInstance(client, id, self);
  await retireInstance(client, self);
  return abandoned;
}
