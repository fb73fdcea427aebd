import { DatabaseError } from 'pg';
import { OccupiedPositionError } from '#db/log/occupied-position.ts';

/**
 * PostgreSQL's error classes for lost connections, insufficient resources, operator intervention,
 * time-outs, locks.
 */
const CLASSES = new Set(['08', '25', '40', '53', '55', '57', '58']);

/** What sockets say of connections that break, or that can't be made. */
const CODES_OF_SOCKETS = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETDOWN',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
]);

/**
 * What `pg` and its pool say of connections that they have lost, or can't get: plain errors without a code.
 */
const WORDS_OF_PG = new Set([
  'Connection terminated',
  'Connection terminated unexpectedly',
  'Connection terminated due to connection timeout',
  'timeout expired',
  'timeout exceeded when trying to connect',
  'Query read timeout',
  'Client has encountered a connection error and is not queryable',
  'Client was closed and is not queryable',
  'Cannot use a pool after calling end on the pool',
  'The server does not support SSL connections',
  'There was an error establishing an SSL connection',
]);

/**
 * Whether an error says that the store is away, too slow or too busy, and not that we asked it
 * something wrong, or went wrong ourselves. Pure.
 */
export function isStoreFault(error: unknown): boolean {
  if (error instanceof OccupiedPositionError) return true;
  if (error instanceof DatabaseError) return CLASSES.has((error.code ?? '').slice(0, 2));
  // One for each address of a host, of which none could be reached.
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isStoreFault);
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  // The socket of a local Postgres is a file, which may not be there.
  return syscall === 'connect' || CODES_OF_SOCKETS.has(code ?? '') || WORDS_OF_PG.has(error.message);
}
