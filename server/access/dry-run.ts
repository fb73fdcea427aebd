import type { Key } from '#db/fold/key.ts';
import { isEnforced, type Limit, type Route, type SubjectLimits } from '#db/limits/limits.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import type { Counter } from '#server/limits/counter.ts';
import { limitErrorOf } from '#server/limits/limit-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { checkKey } from '#server/access/authenticate.ts';
import { authorize, authorizeAnywhere, authorizeModel } from '#server/access/authorize.ts';
import { authorizePriceOf } from '#server/access/authorize-price.ts';

/** A hypothetical call. */
export type DryRunCall = {
  route: Route;
  /** The Origin header; null: absent. */
  origin: string | null;
  /** Null: unknown, so networks are not checked. */
  address: string | null;
  /** Null: unknown, so models are not checked. */
  model: string | null;
};

/**
 * The dry run: the error that a call with this key would get now, or null if it would be admitted. It makes
 * the checks of a real call in the same order, and changes nothing.
 * @param serve the error of a model that no upstream serves, or null.
 */
export function dryRun(
  key: Key,
  { route, origin, address, model }: DryRunCall,
  readModel: ReadModel,
  serve: (model: string) => ApiError | null,
): ApiError | null {
  return (
    checkKey(key, readModel.nowMs()) ??
    (address === null
      ? authorizeAnywhere(key, { route, origin }, readModel)
      : authorize(key, { route, origin, address }, readModel)) ??
    (model === null ? null : authorizeModel(key, model, readModel)) ??
    (model === null ? null : serve(model)) ??
    (model === null ? null : authorizePriceOf(key, model, readModel))
  );
}

/**
 * The dry run of limits: the error of the first exhausted limit that is enforced, or null. The amount that a
 * call needs depends on its content, so any remainder passes here.
 * @param counters the current counters of the database, of these limits.
 */
export function checkLimits(
  subjects: readonly SubjectLimits[],
  counters: readonly Counter[],
  nowMs: number,
): ApiError | null {
  const limits = subjects.flatMap((subject) => subject.limits);
  const spent = counters.find(
    ({ cap, reported }, index) =>
      isEnforced(limits[index] as Limit) && cap - reported.used - reported.held < 1,
  );
  return spent ? limitErrorOf({ kind: 'short', counter: spent, minimum: 1 }, nowMs) : null;
}
