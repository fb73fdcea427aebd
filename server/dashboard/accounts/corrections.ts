import { ChangeReply } from '#server/contract/parts.ts';
import { CorrectRequest, CorrectionList } from '#server/contract/requests.ts';
import type { Corrections } from '#db/events/usage-events.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, ADMINISTRATORS_AND_AUDITORS, type ApiRoute, route } from '#server/dashboard/gate.ts';
import { holderOf, UUID, withReadSlot } from '#server/read/api.ts';
import { readAccountCorrections } from '#server/read/request-corrections.ts';
import type { Source } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** Corrections are read from the log's own table of them. */
const CORRECTIONS: Source = { projection: 'requests', tables: [] };

/** Administrators correct ended requests; auditors too read the corrections of an account. */
export function correctionRoutes(dashboard: Dashboard): ApiRoute[] {
  const { relay, reads } = dashboard;
  return [
    route(
      'get',
      '/api/v1/accounts/:account/corrections',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: CorrectionList },
      async ({ params }, who) => {
        const account = relay.readModel.account(params['account'] ?? '');
        if (!account) return new ApiError('not_found');
        const read = await withReadSlot(reads, holderOf(who), () =>
          reads.read(CORRECTIONS, (client) => readAccountCorrections(client, account.id)),
        );
        return read instanceof ApiError ? read : read.found;
      },
    ),

    route(
      'post',
      '/api/v1/requests/:request/corrections',
      'usage:write',
      ADMINISTRATORS,
      { body: CorrectRequest, reply: ChangeReply },
      async ({ body, params }, { actor }) => {
        const request = params['request'] ?? '';
        if (!UUID.test(request)) return new ApiError('not_found');
        const { reference, reason, ...deltas } = body;
        // Servers keep no state of corrections that a reply would have to wait for.
        return dashboard.control.change(actor, (control) =>
          control.correctUsage(null, request.toLowerCase(), {
            deltas: deltas satisfies Corrections,
            reference,
            reason,
          }),
        );
      },
    ),
  ];
}
