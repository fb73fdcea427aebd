import { accountRoutes } from '#server/dashboard/accounts/routes.ts';
import { correctionRoutes } from '#server/dashboard/accounts/corrections.ts';
import { attributionRoutes } from '#server/dashboard/accounts/attribution.ts';
import { alertRoutes } from '#server/dashboard/service/alert-routes.ts';
import { registrationRoutes } from '#server/dashboard/session/registration.ts';
import { auditRoutes } from '#server/dashboard/audit/routes.ts';
import { backtestRoutes } from '#server/dashboard/backtests/routes.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { desiredStateRoutes } from '#server/dashboard/desired-state/routes.ts';
import { dispatchRoutes } from '#server/dashboard/models/routing.ts';
import { eventRoutes } from '#server/dashboard/events/routes.ts';
import type { ApiRoute } from '#server/dashboard/gate.ts';
import { identityRoutes } from '#server/dashboard/identity/settings.ts';
import { keyRoutes } from '#server/dashboard/keys/routes.ts';
import { limitRoutes } from '#server/read/limits.ts';
import { invitationRoutes } from '#server/dashboard/members/invitations.ts';
import { registrationPolicyRoutes } from '#server/dashboard/members/registration-policy.ts';
import { managementKeyRoutes } from '#server/dashboard/management-keys/routes.ts';
import { memberRoutes } from '#server/dashboard/members/routes.ts';
import { modelRoutes } from '#server/dashboard/models/list.ts';
import { passwordRoutes } from '#server/dashboard/session/passwords.ts';
import { planRoutes } from '#server/dashboard/accounts/plans.ts';
import { playgroundRoutes } from '#server/dashboard/playground.ts';
import { priceRoutes } from '#server/dashboard/models/prices.ts';
import { readApiRoutes } from '#server/read/api.ts';
import { receiptRoutes } from '#server/read/receipts.ts';
import { totpRoutes } from '#server/dashboard/session/totp.ts';
import { reconciliationRoutes } from '#server/dashboard/reconcile/routes.ts';
import { searchRoutes } from '#server/dashboard/search/routes.ts';
import { sessionRoutes } from '#server/dashboard/session/routes.ts';
import { sinkRoutes } from '#server/dashboard/sinks/routes.ts';
import { statementEmailRoutes } from '#server/dashboard/statements/email-routes.ts';
import { statementRoutes } from '#server/dashboard/statements/routes.ts';
import { statusRoutes } from '#server/dashboard/service/status.ts';
import { upstreamRoutes } from '#server/dashboard/upstreams/routes.ts';
import { workloadRoutes } from '#server/dashboard/workloads/routes.ts';

/** All routes of the dashboard's API. */
export function apiRoutes(dashboard: Dashboard): ApiRoute[] {
  const lists = [
    sessionRoutes,
    registrationRoutes,
    passwordRoutes,
    totpRoutes,
    memberRoutes,
    invitationRoutes,
    registrationPolicyRoutes,
    identityRoutes,
    keyRoutes,
    managementKeyRoutes,
    workloadRoutes,
    accountRoutes,
    attributionRoutes,
    planRoutes,
    priceRoutes,
    backtestRoutes,
    modelRoutes,
    upstreamRoutes,
    dispatchRoutes,
    desiredStateRoutes,
    searchRoutes,
    limitRoutes,
    statusRoutes,
    alertRoutes,
    sinkRoutes,
    readApiRoutes,
    receiptRoutes,
    statementRoutes,
    statementEmailRoutes,
    correctionRoutes,
    eventRoutes,
    auditRoutes,
    reconciliationRoutes,
    playgroundRoutes,
  ];
  return lists.flatMap((routes) => routes(dashboard));
}
