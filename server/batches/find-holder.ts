import type { RelayedRoute } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ModelTable } from '#server/upstreams/model-table.ts';
import { findTargets } from '#server/upstreams/find-targets.ts';
import type { Target } from '#server/upstreams/target.ts';

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
      upstream.terms.provider === 'openai' && upstream.routes.has(route) && (own ?? model) === name,
  );
  if (able.length > 0) return able;
  return new ApiError('model_not_found', {
    message:
      `The model "${name}" can't be used in a batch: no upstream has batches of ${route} under this name. ` +
      "Use the provider's own name of a model, not an alias.",
    param: 'model',
  });
}
