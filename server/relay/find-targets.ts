import type { RelayedRoute } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ModelTable } from '#server/upstreams/model-table.ts';
import type { Target } from '#server/upstreams/target.ts';

/**
 * Where calls of a model may go by a route, or the refusal that says why nowhere. The model is to be resolved
 * before.
 */
export function findTargets(
  models: ModelTable,
  model: string,
  route: RelayedRoute,
): readonly Target[] | ApiError {
  const found = models.find(model, route);
  switch (found) {
    case 'unknown':
      return new ApiError('model_not_found', { param: 'model' });
    case 'route':
      return new ApiError('model_not_found', {
        message: `No upstream serves this model by ${route}. Ask by another route, or for another model.`,
        param: 'model',
      });
    case 'paused':
      return new ApiError('model_paused', { param: 'model' });
    default:
      return found;
  }
}

/** Why calls of a model may go nowhere by a route; null where they may. */
export function apiErrorOfModel(models: ModelTable, model: string, route: RelayedRoute): ApiError | null {
  const found = findTargets(models, model, route);
  return found instanceof ApiError ? found : null;
}
