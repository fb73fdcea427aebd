import { ProviderName } from '#db/events/identity/identity-events.ts';
import { countLiveExchanges, liveExchanges } from '#db/workloads/exchanges.ts';
import { ChangeReply, listOf } from '#server/contract/parts.ts';
import { PutWorkload, ShortLivedKeyRow, WorkloadRow } from '#server/contract/identity/workloads.ts';
import { WorkloadControl } from '#server/control/workload-control.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  ADMINISTRATORS,
  ADMINISTRATORS_AND_AUDITORS,
  type ApiRoute,
  memberRoute,
} from '#server/dashboard/gate.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { EXCHANGES_SHOWN_MAX } from '#server/workloads/bounds.ts';

/** Routes for workloads. They give permissions, so no management key may use them. */
export function workloadRoutes(dashboard: Dashboard): ApiRoute[] {
  const {
    signIn,
    relay: { readModel, pepper },
  } = dashboard;

  return [
    memberRoute(
      'get',
      '/api/v1/workloads',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(WorkloadRow) },
      async () => {
        const live = await countLiveExchanges(signIn.pool);
        const data = readModel.workloads.active.map(({ name, account, key, terms }): WorkloadRow => ({
          name,
          account,
          account_name: readModel.account(account)?.name ?? account,
          key,
          ...terms,
          live_keys: live.get(key) ?? 0,
        }));
        return { object: 'list', data };
      },
    ),

    memberRoute(
      'get',
      '/api/v1/workloads/:workload/keys',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(ShortLivedKeyRow) },
      async ({ params }) => {
        const workload = readModel.workloads.get(params['workload'] ?? '');
        if (!workload) return new ApiError('not_found');
        const rows = await liveExchanges(signIn.pool, workload.key, EXCHANGES_SHOWN_MAX);
        const data = rows.map(({ id, created_at, expires_at }): ShortLivedKeyRow => ({
          id,
          created_at: created_at.toISOString(),
          expires_at: expires_at.toISOString(),
        }));
        return { object: 'list', data };
      },
    ),

    memberRoute(
      'put',
      '/api/v1/workloads/:workload',
      ADMINISTRATORS,
      { body: PutWorkload, reply: ChangeReply },
      async ({ params, body }, who) => {
        const name = ProviderName.safeParse(params['workload']);
        if (!name.success)
          return new ApiError('invalid_value', {
            message: `The name ${name.error.issues[0]?.message}.`,
            param: 'workload',
          });
        const { account, ...terms } = body;
        return makeChange(dashboard, who, (control) =>
          new WorkloadControl(control).configure(pepper, name.data, { account, terms }),
        );
      },
    ),

    memberRoute(
      'delete',
      '/api/v1/workloads/:workload',
      ADMINISTRATORS,
      { reply: ChangeReply },
      async ({ params }, who) =>
        makeChange(dashboard, who, (control) =>
          new WorkloadControl(control).remove(params['workload'] ?? ''),
        ),
    ),
  ];
}
