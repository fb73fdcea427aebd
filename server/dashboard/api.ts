import { arrivalRoutes } from '#server/dashboard/arrival-routes.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { eventRoutes } from '#server/dashboard/event-routes.ts';
import type { ApiRoute } from '#server/dashboard/gate.ts';
import { memberRoutes } from '#server/dashboard/member-routes.ts';
import { passwordRoutes } from '#server/dashboard/password-routes.ts';
import { playgroundRoutes } from '#server/dashboard/playground.ts';
import { readApiRoutes } from '#server/dashboard/read-api.ts';
import { sessionRoutes } from '#server/dashboard/session-routes.ts';

/** All routes of the dashboard's API. */
export function apiRoutes(dashboard: Dashboard): ApiRoute[] {
  const lists = [sessionRoutes, arrivalRoutes, passwordRoutes, memberRoutes, readApiRoutes, eventRoutes, playgroundRoutes];
  return lists.flatMap((routes) => routes(dashboard));
}
