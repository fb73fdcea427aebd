import type pg from 'pg';

/** Registers this process as an instance that may append. Its number is never used again. */
export async function registerInstance(client: pg.ClientBase, name: string): Promise<number> {
  const result = await client.query<[number]>({
    text: 'select daybook.register_instance($1)',
    values: [name],
    rowMode: 'array',
  });
  return result.rows[0]?.[0] as number;
}

/**
 * Says that the instance lives, and from where in the log its open requests begin; null for one
 * that never has any.
 * @returns Postgres' clock; null when the instance was declared dead.
 */
export async function heartbeat(
  client: pg.ClientBase,
  instance: number,
  openFrom: number | null,
): Promise<Date | null> {
  const result = await client.query<[Date | null]>({
    name: 'heartbeat',
    text: 'select daybook.heartbeat($1, $2)',
    values: [instance, openFrom],
    rowMode: 'array',
  });
  return result.rows[0]?.[0] ?? null;
}

/** Ends an instance that has nothing open any more. */
export async function retireInstance(client: pg.ClientBase, instance: number): Promise<void> {
  await client.query('select daybook.retire_instance($1)', [instance]);
}

/** Another instance that may have requests open, with its last heartbeat as text. */
export type Peer = { id: number; heartbeat: string; isDead: boolean };

/** The other instances that are alive, or dead and not recovered yet. */
export async function readPeers(client: pg.ClientBase, self: number): Promise<Peer[]> {
  const result = await client.query<Peer>({
    name: 'read_peers',
    text: `select id, heartbeat_at::text as heartbeat, dead_at is not null as "isDead"
      from daybook.instance where closed_at is null and id <> $1`,
    values: [self],
  });
  return result.rows;
}

/**
 * Declares an instance dead, so that it can't append or spend any more, and asks a worker to end
 * what it left open.
 * @returns false when no worker lives that could.
 */
export async function requestRecovery(client: pg.ClientBase, dead: number): Promise<boolean> {
  const result = await client.query<[boolean]>({
    text: 'select daybook.request_recovery($1)',
    values: [dead],
    rowMode: 'array',
  });
  return result.rows[0]?.[0] ?? false;
}

/**
 * Declares an instance dead, so that it can't append any more, and ends what it left open. Both
 * steps can be repeated: a recoverer that dies in between leaves the rest to the next one.
 * @returns how many requests were abandoned; 0 when somebody else was first.
 */
export async function recoverInstance(client: pg.ClientBase, dead: number, by: number): Promise<number> {
  await client.query('select daybook.fence_instance($1)', [dead]);
  const result = await client.query<[number]>({
    text: 'select daybook.recover_instance($1, $2)',
    values: [dead, by],
    rowMode: 'array',
  });
  return result.rows[0]?.[0] ?? 0;
}
