import { accountRoutes } from '#server/dashboard/accounts/account-routes.ts';
import { alertRoutes } from '#server/dashboard/service/alert-routes.ts';
import { registrationRoutes } from '#server/dashboard/session/registration-routes.ts';
import { auditRoutes } from '#server/dashboard/audit/audit-routes.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { dispatchRoutes } from '#server/dashboard/upstreams/dispatch-routes.ts';
import { eventRoutes } from '#server/dashboard/audit/event-routes.ts';
import type { ApiRoute } from '#server/dashboard/gate.ts';
import { keyRoutes } from '#server/dashboard/keys/key-routes.ts';
import { limitRoutes } from '#server/read/limit-routes.ts';
import { memberRoutes } from '#server/dashboard/accounts/member-routes.ts';
import { modelRoutes } from '#server/dashboard/upstreams/model-routes.ts';
import { passwordRoutes } from '#server/dashboard/session/password-routes.ts';
import { planRoutes } from '#server/dashboard/accounts/plan-routes.ts';
import { playgroundRoutes } from '#server/dashboard/playground.ts';
import { priceRoutes } from '#server/dashboard/upstreams/price-routes.ts';
import { readApiRoutes } from '#server/read/read-api.ts';
import { receiptRoutes } from '#server/read/receipt-routes.ts';
import { sessionRoutes } from '#server/dashboard/session/session-routes.ts';
import { statusRoutes } from '#server/dashboard/service/status-routes.ts';
import { upstreamRoutes } from '#server/dashboard/upstreams/upstream-routes.ts';

/** All routes of the dashboard's API. */
export function apiRoutes(dashboard: Dashboard): ApiRoute[] {
  const lists = [
    sessionRoutes,
    registrationRoutes,
    passwordRoutes,
    memberRoutes,
    keyRoutes,
    accountRoutes,
    planRoutes,
    priceRoutes,
    modelRoutes,
    upstreamRoutes,
    dispatchRoutes,
    limitRoutes,
    statusRoutes,
    alertRoutes,
    readApiRoutes,
    receiptRoutes,
    eventRoutes,
    auditRoutes,
    playgroundRoutes,
  ];
  return lists.flatMap((routes) => routes(dashboard));
}
