import type { PageQuery } from '#server/contract/parts.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { invalidParameter } from '#server/read/query.ts';

/** Pages of lists in memory whose objects are never removed. Pure. */

type Page<T> = { rows: T[]; omitted: number; next: string | null };

/**
 * A page of the objects that fit, newest first. Its cursor is the id of its last object, so that it is valid
 * on every server, and objects that are created meanwhile shift nothing.
 * @param all in the order of their creation.
 */
export function newestFirst<T extends { id: string }>(
  all: readonly T[],
  fits: (each: T) => boolean,
  { limit, cursor }: PageQuery,
): Page<T> | ApiError {
  const end = cursor === undefined ? all.length : all.findIndex(({ id }) => id === idOf(cursor));
  if (end < 0) return invalidParameter('cursor', 'is not one that a page gave as "next"');
  const fitting = all.slice(0, end).filter(fits);
  const rows = fitting.slice(-limit).toReversed();
  const omitted = fitting.length - rows.length;
  const last = rows.at(-1);
  return { rows, omitted, next: omitted === 0 || !last ? null : cursorOf(last.id) };
}

const cursorOf = (id: string): string => Buffer.from(id).toString('base64url');
const idOf = (cursor: string): string => Buffer.from(cursor, 'base64url').toString();
