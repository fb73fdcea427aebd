import { DatabaseError } from 'pg';

/** Postgres' own classes of errors: lost connections, too little of something, somebody's intervention, time-outs, locks. */
const CLASSES = new Set(['08', '25', '40', '53', '55', '57', '58']);

/**
 * Whether an error says that the store is away, too slow or too busy, and not that we asked it
 * something wrong. What `pg` and sockets throw by themselves is of no class of its own: lost
 * connections and time-outs are plain errors. Pure.
 */
export function isStoreFault(error: unknown): boolean {
  if (error instanceof DatabaseError) return CLASSES.has((error.code ?? '').slice(0, 2));
  return error instanceof Error && (error.constructor === Error || error.constructor === AggregateError);
}
