import type { Client } from 'pg';
import type { Random } from '../chaos/random.ts';
import type { World } from './world.ts';

/** The tables that findings name. */
export type Table =
  | 'log'
  | 'log_batch'
  | 'control_event'
  | 'correction'
  | 'log_partition'
  | 'stream_head'
  | 'log_node'
  | 'checkpoint'
  | 'install';

/** An attack on a log, and the expected finding. */
export type Attack = {
  kind: string;
  /** A description, for attacks that were missed. */
  what: string;
  /**
   * The first invalid position; null if nothing that is signed was changed.
   */
  expected: number | null;
  /**
   * An equally valid position, for a row that was moved: verification can't know which of the two is its own.
   */
  orElse?: number;
  /** The table of that position. */
  table: Table;
};

/** Runs work as superuser, without triggers, in a transaction that is rolled back. */
export async function within<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin; set local session_replication_role = replica');
  try {
    return await work();
  } finally {
    await client.query('rollback');
  }
}

/**
 * Attempts a change that a type, a constraint or a partition can reject.
 * @returns the number of changed rows; 0 if it was rejected.
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
/** A random integer from `from` to `to`, inclusive. */
export const between = (random: Random, from: number, to: number): number =>
  from + random.below(to - from + 1);
