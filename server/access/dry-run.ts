import type { Key } from '#db/fold/key.ts';
import type { Route } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Counter } from '#server/limits/counter.ts';
import { limitErrorOf } from '#server/limits/limit-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { countsCost } from '#server/relay/call-estimate.ts';
import { checkKey } from '#server/access/authenticate.ts';
import { authorize, authorizeAnywhere, authorizeModel } from '#server/access/authorize.ts';

/** A call as it might be made. */
export type DryRunCall = {
  route: Route;
  /** The Origin header; null: absent. */
  origin: string | null;
  /** Null: from somewhere, so that networks are not judged. */
  address: string | null;
  /** Null: of some model, so that models are not judged. */
  model: string | null;
};

/**
 * The dry run: the refusal that a call with this key would get now, or null when it would pass. It
 * asks what a real call is asked, in the same order, and changes nothing.
 * @param serve the refusal of a model that goes to no upstream, or null.
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
    (model === null || readModel.prices.find(model) || !readModel.limitsOf(key).some(countsCost)
      ? null
      : new ApiError('model_not_priced', { param: 'model' }))
  );
}

/**
 * The same for limits: the refusal of the first that has nothing left, or null. What a call would
 * need of the others depends on its content, so a small remainder lets it pass here.
 * @param counters as the store knows them now.
 */
export function checkLimits(counters: readonly Counter[], nowMs: number): ApiError | null {
  const spent = counters.find(({ cap, reported }) => cap - reported.used - reported.held < 1);
  return spent ? limitErrorOf({ kind: 'short', counter: spent, minimum: 1 }, nowMs) : null;
}
