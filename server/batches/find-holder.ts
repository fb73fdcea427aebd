import type { Key } from '#db/fold/key.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { authorizeModel } from '#server/access/authorize.ts';
import type { InputLine } from '#server/batches/input-line.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Relay } from '#server/relay/relay.ts';
import { type Choice, choose } from '#server/upstreams/choose.ts';
import type { ModelTable } from '#server/upstreams/model-table.ts';
import { findTargets } from '#server/upstreams/find-targets.ts';
import type { Target } from '#server/upstreams/target.ts';

/** The protocol that the batches of a route belong to. */
const providerOf = (route: RelayedRoute): 'anthropic' | 'openai' =>
  route === '/v1/messages' ? 'anthropic' : 'openai';

/** The upstream and credential that an account's batches with such a line are sent to: always the same. */
export function holderOf(
  { readModel, upstreams }: Pick<Relay, 'readModel' | 'upstreams'>,
  key: Key,
  { parsed, route }: Pick<InputLine, 'parsed' | 'route'>,
): Choice | ApiError {
  const models = upstreams.table;
  const forbidden = authorizeModel(key, models.resolve(parsed.model), readModel);
  if (forbidden) return forbidden;
  const targets = batchTargets(models, parsed.model, route);
  if (targets instanceof ApiError) return targets;
  return choose(targets, [], [], performance.now(), key.account) ?? new ApiError('model_paused');
}

/**
 * The targets of a model whose upstreams can run a batch of its requests: those with the route itself, under
 * the name that the lines have, since a file is passed on as it is. Pure.
 */
export function batchTargets(
  models: ModelTable,
  name: string,
  route: RelayedRoute,
): readonly Target[] | ApiError {
  const model = models.resolve(name);
  const targets = findTargets(models, model, route);
  if (targets instanceof ApiError) return targets;
  const able = targets.filter(
    ({ upstream, model: own }) =>
      upstream.terms.provider === providerOf(route) && upstream.routes.has(route) && (own ?? model) === name,
  );
  if (able.length > 0) return able;
  return new ApiError('model_not_found', {
    message:
      `The model "${name}" can't be used in a batch: no upstream has batches of ${route} under this name. ` +
      "Use the provider's own name of a model, not an alias.",
    param: 'model',
  });
}
