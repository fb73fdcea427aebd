import { z } from 'zod';
import { listOf, objectReply } from '#server/contract/parts.ts';
import {
  AlertRow,
  AlertsQuery,
  CreateDestination,
  CreatedDestination,
  DeliveriesQuery,
  DeliveryRow,
  DestinationRow,
} from '#server/contract/alerts.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import type { ClientBase } from 'pg';
import { ALERTS, listAlerts, listDeliveries } from '#server/dashboard/service/alerts.ts';
import { parseId } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  ADMINISTRATORS,
  type ApiRoute,
  ANY_ROLE,
  ADMINISTRATORS_AND_AUDITORS,
  route,
  scopeOfMember,
} from '#server/dashboard/gate.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { readQuery } from '#server/read/query.ts';
import { ApiError } from '#server/errors/api-error.ts';
import {
  addDestination,
  listDestinations,
  removeDestination,
  testDestination,
} from '#server/control/destinations.ts';

/** Alerts, and the destinations that they are sent to. */
export function alertRoutes({ relay, reads, control }: Dashboard): ApiRoute[] {
  const { readModel, pepper } = relay;

  async function list<T>(
    who: Caller,
    read: (client: ClientBase) => Promise<T[]>,
  ): Promise<{ object: 'list'; data: T[] } | ApiError> {
    const found = await withReadSlot(reads, holderOf(who), () => reads.read(ALERTS, read));
    return found instanceof ApiError ? found : { object: 'list', data: found.found };
  }

  return [
    route(
      'get',
      '/api/v1/alerts',
      'usage:read',
      ANY_ROLE,
      { query: AlertsQuery, reply: listOf(AlertRow) },
      async ({ request }, who) => {
        const filter = readQuery(AlertsQuery, request.url);
        if (filter instanceof ApiError) return filter;
        const nameOf = (account: string): string | null => readModel.account(account)?.name ?? null;
        return list(who, (client) => listAlerts(client, scopeOfMember(who).account, filter, nameOf));
      },
    ),

    route(
      'get',
      '/api/v1/destinations',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(DestinationRow) },
      (_call, who) =>
        list(who, async (client) =>
          (await listDestinations(client)).map(
            ({ created_at, failing_since, switched_off_at, ...destination }): DestinationRow => ({
              ...destination,
              created_at: created_at.toISOString(),
              failing_since: failing_since?.toISOString() ?? null,
              disabled_at: switched_off_at?.toISOString() ?? null,
            }),
          ),
        ),
    ),

    route(
      'post',
      '/api/v1/destinations',
      'usage:write',
      ADMINISTRATORS,
      { body: CreateDestination, reply: CreatedDestination },
      async ({ body }, { actor }) => {
        const { kind, address, account, alerts, filter, allow_private: allowPrivate } = body;
        if (account !== null && !readModel.account(account))
          return new ApiError('not_found', { param: 'account' });
        const made = await control.change(actor, (_control, client) =>
          addDestination(client, pepper, { kind, address, account, alerts, filter, allowPrivate }),
        );
        return made instanceof ApiError
          ? made
          : ({ object: 'destination', id: made.id, secret: made.secret } satisfies CreatedDestination);
      },
    ),

    route(
      'delete',
      '/api/v1/destinations/:destination',
      'usage:write',
      ADMINISTRATORS,
      { reply: objectReply('destination', { id: z.string() }) },
      async ({ params }, { actor }) => {
        const id = parseId(params, 'destination');
        if (id instanceof ApiError) return id;
        const removed = await control.change(actor, (_control, client) => removeDestination(client, id));
        return removed instanceof ApiError ? removed : { object: 'destination', id };
      },
    ),

    route(
      'post',
      '/api/v1/destinations/:destination/test',
      'usage:write',
      ADMINISTRATORS,
      { reply: objectReply('delivery', { id: z.string() }) },
      async ({ params }, { actor }) => {
        const id = parseId(params, 'destination');
        if (id instanceof ApiError) return id;
        const delivery = await control.change(actor, (_control, client) => testDestination(client, id));
        return delivery instanceof ApiError ? delivery : { object: 'delivery', id: delivery };
      },
    ),

    route(
      'get',
      '/api/v1/deliveries',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { query: DeliveriesQuery, reply: listOf(DeliveryRow) },
      async ({ request }, who) => {
        const query = readQuery(DeliveriesQuery, request.url);
        return query instanceof ApiError
          ? query
          : list(who, (client) => listDeliveries(client, query.destination ?? null));
      },
    ),
  ];
}
