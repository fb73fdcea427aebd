import { ChangeReply, listOf } from '#server/contract/parts.ts';
import { PlanRow, PutTerms } from '#server/contract/accounts.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, ADMINISTRATORS_AND_AUDITORS, route } from '#server/dashboard/gate.ts';
import { unavailable } from '#server/read/store.ts';
import { checkPlanName } from '#server/decide/plan.ts';

const STALE = unavailable('Plan data');

/** Routes for plans: administrators manage them, auditors read them. */
export function planRoutes(dashboard: Dashboard): ApiRoute[] {
  const { readModel } = dashboard.relay;
  return [
    route(
      'get',
      '/api/v1/plans',
      'plans:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(PlanRow) },
      async () => {
        if (!readModel.isCurrent()) return STALE;
        const accounts = Map.groupBy(readModel.accounts, ({ plan }) => plan);
        const data = [...readModel.plans]
          .map(({ name, terms, state, version }): PlanRow => ({
            name,
            terms,
            state,
            accounts: accounts.get(name)?.length ?? 0,
            version,
          }))
          .toSorted((one, other) => (one.name < other.name ? -1 : 1));
        return { object: 'list', data };
      },
    ),

    route(
      'put',
      '/api/v1/plans/:plan',
      'plans:write',
      ADMINISTRATORS,
      { body: PutTerms, reply: ChangeReply },
      ({ body, params }, who) =>
        makeChange(dashboard, who, (control) =>
          control.definePlan(checkPlanName(params['plan'] ?? ''), body.terms, body.windows),
        ),
    ),

    route(
      'post',
      '/api/v1/plans/:plan/retire',
      'plans:write',
      ADMINISTRATORS,
      { reply: ChangeReply },
      ({ params }, who) =>
        makeChange(dashboard, who, (control) => control.retirePlan(checkPlanName(params['plan'] ?? ''))),
    ),
  ];
}
