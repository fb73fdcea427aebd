import type { ControlAppend } from '#db/log/append.ts';
import { streamOf } from '#db/events/streams.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** Conditions of one request on the change that it makes. */
export type ChangeGuard = {
  /** `If-Match`: the stream of the object, and the versions that it may have; null: any that exists. */
  precondition: { stream: string; versions: readonly number[] | null } | null;
  /** `Idempotency-Key`: names that the change takes permanently, so that it is made at most once. */
  idempotency: { claim: string; fingerprint: string } | null;
};

/** @throws {DecisionError} `precondition_failed` unless the precondition allows this version. Pure. */
export function checkVersion({ precondition }: ChangeGuard, version: number): void {
  if (precondition === null) return;
  const { stream, versions } = precondition;
  if (versions === null ? version > 0 : versions.includes(version)) return;
  throw new DecisionError(
    'precondition_failed',
    version === 0
      ? `If-Match: ${stream} doesn't exist.`
      : `If-Match: ${stream} has the ETag "${version}" now. Read it again, and decide on that version.`,
  );
}

/**
 * The appends of a change with its claims, once they fit the precondition. Pure.
 * @throws {DecisionError} `precondition_failed` when they were decided on another version.
 */
export function guardAppends(guard: ChangeGuard, appends: readonly ControlAppend[]): ControlAppend[] {
  const { precondition, idempotency } = guard;
  const first = appends.find(({ event }) => streamOf(event) === precondition?.stream);
  if (first) checkVersion(guard, first.version - 1);
  return appends.map((each, index) =>
    idempotency === null || index > 0
      ? each
      : { ...each, claim: [each.claim ?? [], idempotency.claim, idempotency.fingerprint].flat() },
  );
}
