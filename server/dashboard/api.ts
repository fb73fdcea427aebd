import { accountRoutes } from '#server/dashboard/account-routes.ts';
import { alertRoutes } from '#server/dashboard/alert-routes.ts';
import { arrivalRoutes } from '#server/dashboard/arrival-routes.ts';
import { auditRoutes } from '#server/dashboard/audit-routes.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { dispatchRoutes } from '#server/dashboard/dispatch-routes.ts';
import { eventRoutes } from '#server/dashboard/event-routes.ts';
import type { ApiRoute } from '#server/dashboard/gate.ts';
import { keyRoutes } from '#server/dashboard/key-routes.ts';
import { limitRoutes } from '#server/dashboard/limit-routes.ts';
import { memberRoutes } from '#server/dashboard/member-routes.ts';
import { modelRoutes } from '#server/dashboard/model-routes.ts';
import { passwordRoutes } from '#server/dashboard/password-routes.ts';
import { planRoutes } from '#server/dashboard/plan-routes.ts';
import { playgroundRoutes } from '#server/dashboard/playground.ts';
import { priceRoutes } from '#server/dashboard/price-routes.ts';
import { readApiRoutes } from '#server/dashboard/read-api.ts';
import { receiptRoutes } from '#server/dashboard/receipt-routes.ts';
import { sessionRoutes } from '#server/dashboard/session-routes.ts';
import { statusRoutes } from '#server/dashboard/status-routes.ts';
import { upstreamRoutes } from '#server/dashboard/upstream-routes.ts';

/** All routes of the dashboard's API. */
export function apiRoutes(dashboard: Dashboard): ApiRoute[] {
  const lists = [
    sessionRoutes, arrivalRoutes, passwordRoutes, memberRoutes, keyRoutes, accountRoutes, planRoutes, priceRoutes, modelRoutes, upstreamRoutes, dispatchRoutes,
    limitRoutes, statusRoutes, alertRoutes, readApiRoutes, receiptRoutes, eventRoutes, auditRoutes, playgroundRoutes,
  ];
  return lists.flatMap((routes) => routes(dashboard));
}
