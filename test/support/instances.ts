import type { Store } from '#db/postgres/connect.ts';
import { openSession } from './database.ts';

/** An instance as the store knows it. */
export type Instance = { id: number; kind: string; pid: number; isDead: boolean; isClosed: boolean };

/** All instances that ever were, by number. The name of each is its kind, its host and its process. */
export async function readInstances(store: Store): Promise<Instance[]> {
  const client = await openSession(store.config('auditor'));
  try {
    const { rows } = await client.query<Instance>(`select id, split_part(name, ' ', 1) as kind,
        coalesce(nullif(split_part(name, ' ', 3), ''), '0')::int as pid, dead_at is not null as "isDead",
        closed_at is not null as "isClosed"
      from daybook.instance order by id`);
    return rows;
  } finally {
    await client.end();
  }
}

/** The servers that are not known to be dead. */
export async function liveServers(store: Store): Promise<Instance[]> {
  return (await readInstances(store)).filter(({ kind, isDead }) => kind === 'server' && !isDead);
}

/** Whether a process is there, frozen ones included. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
