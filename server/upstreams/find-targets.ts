import type { RelayedRoute } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Protocol } from '#server/protocols/protocol.ts';
import type { ModelTable } from '#server/upstreams/model-table.ts';
import type { Target } from '#server/upstreams/target.ts';

/** The targets of a resolved model for a route, or the error that says why it has none. */
export function findTargets(
  models: ModelTable,
  model: string,
  route: RelayedRoute,
  protocol: Protocol | null = null,
): readonly Target[] | ApiError {
  const found = models.find(model, route, protocol);
  switch (found) {
    case 'unknown':
      return new ApiError('model_not_found', { param: 'model' });
    case 'route':
      return new ApiError('model_not_found', {
        message: `No upstream serves this model by ${route}. Use another route or another model.`,
        param: 'model',
      });
    case 'paused':
      return new ApiError('model_paused', { param: 'model' });
    default:
      return found;
  }
}

/** The error of a model without targets for a route, else null. */
export function apiErrorOfModel(models: ModelTable, model: string, route: RelayedRoute): ApiError | null {
  const found = findTargets(models, model, route);
  return found instanceof ApiError ? found : null;
}
