import { ChangeReply, listOf } from '#server/contract/parts.ts';
import { DefineModel, ModelRoute, RetireModel } from '#server/contract/models.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, ADMINISTRATORS_AND_AUDITORS, route } from '#server/dashboard/gate.ts';
import { unavailable } from '#server/read/store.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';

const STALE = unavailable('Model data');

/**
 * Routes for the routing of models: administrators manage it, auditors read it. Model names are in bodies,
 * since a path can't hold every name.
 */
export function dispatchRoutes(dashboard: Dashboard): ApiRoute[] {
  const {
    config,
    relay: { readModel },
  } = dashboard;
  return [
    route(
      'get',
      '/api/v1/dispatch',
      'upstreams:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(ModelRoute) },
      async () => {
        if (!readModel.isCurrent()) return STALE;
        const data = [...readModel.directory.models]
          .filter(({ state }) => state === 'active')
          .map(({ name, terms, position, version }): ModelRoute => ({
            model: name,
            terms,
            position,
            version,
          }))
          .toSorted((one, other) => (one.model < other.model ? -1 : 1));
        return { object: 'list', data };
      },
    ),

    route(
      'put',
      '/api/v1/dispatch',
      'upstreams:write',
      ADMINISTRATORS,
      { body: DefineModel, reply: ChangeReply },
      ({ body: { model, terms } }, who) =>
        makeChange(dashboard, who, (control, client) =>
          new UpstreamControl(control, client, config).defineModel(model, terms),
        ),
    ),

    route(
      'post',
      '/api/v1/dispatch/retire',
      'upstreams:write',
      ADMINISTRATORS,
      { body: RetireModel, reply: ChangeReply },
      ({ body: { model } }, who) =>
        makeChange(dashboard, who, (control, client) =>
          new UpstreamControl(control, client, config).retireModel(model),
        ),
    ),
  ];
}
