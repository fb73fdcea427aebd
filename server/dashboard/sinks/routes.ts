import { z } from 'zod';
import { ChangeReply, listOf, objectReply } from '#server/contract/parts.ts';
import {
  ChangeSink,
  ConfiguredSink,
  CreateSink,
  ReplaceSinkConfig,
  SinkRow,
} from '#server/contract/sinks.ts';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import { SinkName } from '#db/events/sink-events.ts';
import type { SinkConfig, SinkConfigInput } from '#db/spend/sink-config.ts';
import { readSinks } from '#db/spend/sink-status.ts';
import type { Change } from '#server/contract/keys.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, ADMINISTRATORS_AND_AUDITORS, type ApiRoute, route } from '#server/dashboard/gate.ts';
import { ALERTS } from '#server/dashboard/service/alerts.ts';
import { sinkRow } from '#server/dashboard/sinks/list.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { SinkControl } from '#server/spend/sinks.ts';

const NOT_FOUND = new ApiError('not_found');

/** Sinks of spend events: administrators manage them, auditors look. */
export function sinkRoutes(dashboard: Dashboard): ApiRoute[] {
  const { relay, reads, control } = dashboard;

  const change = <T extends Change>(
    who: Caller,
    use: (sinks: SinkControl) => Promise<T>,
  ): Promise<T | ApiError> =>
    makeChange(dashboard, who, (owner, client) => use(new SinkControl(owner, client)));

  return [
    route(
      'get',
      '/api/v1/sinks',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: listOf(SinkRow) },
      async (_call, who) => {
        // Sinks are in no projection either.
        const read = await withReadSlot(reads, holderOf(who), () => reads.read(ALERTS, readSinks));
        return read instanceof ApiError ? read : { object: 'list', data: read.found.map(sinkRow) };
      },
    ),

    route(
      'post',
      '/api/v1/sinks',
      'usage:write',
      ADMINISTRATORS,
      { body: CreateSink, reply: ConfiguredSink },
      async ({ body }, who) => {
        const { account, config: wanted, ...place } = body;
        if (account !== null && !relay.readModel.account(account))
          return new ApiError('not_found', { param: 'account' });
        const { config, secret } = complete(wanted);
        const added = await change(who, (sinks) => sinks.add(relay.pepper, { ...place, account, config }));
        return added instanceof ApiError ? added : configured(added, secret);
      },
    ),

    route(
      'put',
      '/api/v1/sinks/:sink/config',
      'usage:write',
      ADMINISTRATORS,
      { body: ReplaceSinkConfig, reply: ConfiguredSink },
      async (call, who) => {
        const name = nameOf(call.params);
        if (name instanceof ApiError) return name;
        const { config, secret } = complete(call.body.config);
        const replaced = await change(who, (sinks) => sinks.replace(relay.pepper, name, config));
        return replaced instanceof ApiError ? replaced : configured(replaced, secret);
      },
    ),

    route(
      'patch',
      '/api/v1/sinks/:sink',
      'usage:write',
      ADMINISTRATORS,
      { body: ChangeSink, reply: ChangeReply },
      ({ params, body }, who) => {
        const name = nameOf(params);
        if (name instanceof ApiError) return Promise.resolve(name);
        if ('position' in body) return change(who, (sinks) => sinks.rewind(name, body.position));
        return change(who, (sinks) => (body.paused ? sinks.pause(name) : sinks.resume(name)));
      },
    ),

    route(
      'delete',
      '/api/v1/sinks/:sink',
      'usage:write',
      ADMINISTRATORS,
      { reply: ChangeReply },
      ({ params }, who) => {
        const name = nameOf(params);
        return name instanceof ApiError ? Promise.resolve(name) : change(who, (sinks) => sinks.remove(name));
      },
    ),

    route(
      'post',
      '/api/v1/sinks/:sink/test',
      'usage:write',
      ADMINISTRATORS,
      { reply: objectReply('sink', { id: z.string() }) },
      async ({ params }, { actor }) => {
        const name = nameOf(params);
        if (name instanceof ApiError) return name;
        const requested = await control.change(actor, (owner, client) =>
          new SinkControl(owner, client).test(name),
        );
        return requested instanceof ApiError ? requested : { object: 'sink', id: requested.id };
      },
    ),
  ];
}

/** A configuration with the secret that its webhook is signed with. */
function complete(wanted: SinkConfigInput): { config: SinkConfig; secret: string | null } {
  if (wanted.kind !== 'webhook') return { config: wanted, secret: null };
  const secret = createWebhookSecret();
  return { config: { ...wanted, secret }, secret };
}

const configured = (
  { event, id, position }: Change & { id: string; position: number },
  secret: string | null,
): ConfiguredSink => ({ object: 'sink', event, id, position, secret });

/** What can't be a name is as unknown as one that never was. */
function nameOf(params: Readonly<Record<string, string>>): string | ApiError {
  const parsed = SinkName.safeParse(params['sink']);
  return parsed.success ? parsed.data : NOT_FOUND;
}
