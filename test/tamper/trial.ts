import type { Client } from 'pg';
import type { Random } from '../chaos/random.ts';
import type { World } from './world.ts';

/** The log's tables as verification names them. */
export type Table =
  'log' | 'log_batch' | 'log_kept' | 'log_partition' | 'stream_head' | 'log_node' | 'checkpoint' | 'install';

/** What was done to a log, and what has to be said of it. */
export type Attack = {
  kind: string;
  /** In words, for who looks at one that was missed. */
  what: string;
  /**
   * The first position that is bad, by how the attack was made; null where nothing that anybody attests was
   * changed.
   */
  expected: number | null;
  /**
   * The other position that is as good, where a row was given another place: nobody can tell which of the two
   * is its own.
   */
  orElse?: number;
  /** In which table that is. */
  table: Table;
};

/** Everything is done by the superuser, in a transaction that is rolled back, with no trigger in the way. */
export async function within<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin; set local session_replication_role = replica');
  try {
    return await work();
  } finally {
    await client.query('rollback');
  }
}

/**
 * Tries a change that a type, a constraint or a partition may not accept. @returns how many rows it changed;
 * 0 where it was not accepted.
 */
export async function attempt(client: Client, text: string, values: unknown[]): Promise<number> {
  await client.query('savepoint attempt');
  try {
    const { rowCount } = await client.query(text, values);
    await client.query('release attempt');
    return rowCount ?? 0;
  } catch {
    await client.query('rollback to attempt');
    return 0;
  }
}

/** Makes one attack on a world. */
export type Attacker = (world: World, random: Random) => Promise<Attack>;

export const oneOf = <T>(random: Random, items: readonly T[]): T => items[random.below(items.length)] as T;
/** A whole number from one up to another, both included. */
export const between = (random: Random, from: number, to: number): number =>
  from + random.below(to - from + 1);
