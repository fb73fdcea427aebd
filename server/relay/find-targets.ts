import type { RelayedRoute } from '#db/limits/limits.ts';
import { Refusal } from '#server/errors/api-error.ts';
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
): readonly Target[] | Refusal {
  const found = models.find(model, route);
  switch (found) {
    case 'unknown':
      return new Refusal('model_not_found', { param: 'model' });
    case 'route':
      return new Refusal('model_not_found', {
        message: `No upstream serves this model by ${route}. Ask by another route, or for another model.`,
        param: 'model',
      });
    case 'paused':
      return new Refusal('model_paused', { param: 'model' });
    default:
      return found;
  }
}

/** Why calls of a model may go nowhere by a route; null where they may. */
export function refusalOfModel(models: ModelTable, model: string, route: RelayedRoute): Refusal | null {
  const found = findTargets(models, model, route);
  return found instanceof Refusal ? found : null;
}
