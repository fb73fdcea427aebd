import type { Corrections } from '#db/events/usage-events.ts';
import { CorrectRequest } from '#server/contract/requests.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, route } from '#server/dashboard/gate.ts';
import { UUID } from '#server/read/api.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** Administrators correct ended requests. */
export function correctionRoutes(dashboard: Dashboard): ApiRoute[] {
  return [
    route(
      'post',
      '/api/requests/:request/corrections',
      ADMINISTRATORS,
      CorrectRequest,
      async ({ body, params }, { member }) => {
        const request = params['request'] ?? '';
        if (!UUID.test(request)) return new ApiError('not_found');
        const { reference, reason, ...deltas } = body;
        // Servers keep no state of corrections that a reply would have to wait for.
        return dashboard.control.change(`member/${member.id}`, (control) =>
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
