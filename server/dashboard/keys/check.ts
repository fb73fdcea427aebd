import type { Key } from '#db/fold/key.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { type ErrorCode, ApiError } from '#server/errors/api-error.ts';
import { type CheckKey, CheckStep, type KeyCheckResult } from '#server/contract/keys.ts';
import { LIMITS_UNAVAILABLE } from '#server/read/store.ts';
import { apiErrorOfModel } from '#server/upstreams/find-targets.ts';
import { dryRun, checkLimits } from '#server/access/dry-run.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { z } from 'zod';

/** Steps that apply to relayed calls only. */
const OF_MODELS = new Set<CheckStep>(['model', 'upstream', 'price', 'limits']);

/** The step that returns an error code. Other codes come from limits. */
const STEP_OF: Partial<Record<ErrorCode, CheckStep>> = {
  api_key_revoked: 'key',
  api_key_expired: 'key',
  account_disabled: 'account',
  plan_not_active: 'plan',
  route_not_permitted: 'route',
  origin_not_allowed: 'origin',
  network_not_allowed: 'network',
  model_not_permitted: 'model',
  model_not_found: 'upstream',
  model_paused: 'upstream',
  model_not_priced: 'price',
};

/** A dry run of a call with this key, by the code that authorizes calls. Nothing is reserved or recorded. */
export async function checkKey(
  { readModel, upstreams, instance }: Relay,
  key: Key,
  asked: z.output<typeof CheckKey>,
): Promise<KeyCheckResult | ApiError> {
  const models = upstreams.table;
  const relayed = RELAYED_ROUTES.find((route) => route === asked.route);
  const isRelayed = relayed !== undefined;
  const trial = {
    route: asked.route,
    origin: asked.origin === undefined || asked.origin === 'none' ? null : asked.origin,
    address: asked.address ?? null,
    model: isRelayed ? models.resolve(asked.model) : null,
  };
  let refusal = dryRun(key, trial, readModel, (model) =>
    isRelayed ? apiErrorOfModel(models, model, relayed) : null,
  );
  if (refusal === null && isRelayed) {
    const subjects = readModel.limitsOf(key);
    const counters = await instance.limits.figures(subjects);
    if (counters === null) return LIMITS_UNAVAILABLE;
    refusal = checkLimits(subjects, counters, readModel.nowMs());
  }
  const steps = CheckStep.options.filter(
    (step) => (step !== 'network' || trial.address !== null) && (isRelayed || !OF_MODELS.has(step)),
  );
  return { object: 'key_check', allowed: refusal === null, checks: listChecks(steps, refusal) };
}

/** The steps up to the one that fails. */
function listChecks(steps: readonly CheckStep[], refusal: ApiError | null): KeyCheckResult['checks'] {
  if (refusal === null) return steps.map((step) => ({ step, passed: true, error: null }));
  const { status, code, message } = refusal;
  const failed = STEP_OF[code] ?? 'limits';
  return [
    ...steps.slice(0, steps.indexOf(failed)).map((step) => ({ step, passed: true, error: null })),
    { step: failed, passed: false, error: { status, code, message } },
  ];
}
