import type { Client } from 'pg';
import { HEARTBEAT_MS } from '#db/bounds.ts';
import type { Role, Store } from '#db/postgres/connect.ts';
import { appendCorrections } from '#db/limits/corrections.ts';
import type { ControlEvent, EventOf, Placed, RequestEvent } from '#db/events/events.ts';
import { publicId, uuidv7 } from '#db/ids.ts';
import { heartbeat, registerInstance } from '#db/instances/instance.ts';
import { appendControl, appendRequests, type ControlAppend } from '#db/log/append.ts';
import { openSession } from '../database.ts';
import { openLog } from '../relay.ts';

/** An instance with a connection of its own, which appends what a test tells it to. */
export type Writer = AsyncDisposable & {
  client: Client;
  instance: number;
  /** Appends under the next batch number, or under one that is given. */
  append(events: readonly RequestEvent[], batchNo?: number): Promise<number>;
  control(appends: readonly ControlAppend[], batchNo?: number): Promise<number>;
  /** Appends corrections, whatever was corrected before but with the same reference. */
  correct(events: readonly EventOf<'usage.adjusted'>[], batchNo?: number): Promise<number>;
};

/** @param as the number to append under, where it is not to be a new instance. */
export async function openWriter(store: Store, as?: number): Promise<Writer> {
  const client = await connectAs(store, 'relay');
  const instance = as ?? (await registerInstance(client, 'writer'));
  let last = 0;
  return {
    client,
    instance,
    append: (events, batchNo = ++last) => appendRequests(client, instance, batchNo, events),
    control: (appends, batchNo = ++last) => appendControl(client, instance, batchNo, appends),
    correct: (events, batchNo = ++last) =>
      appendCorrections(client, instance, batchNo, Number.MAX_SAFE_INTEGER, events),
    [Symbol.asyncDispose]: () => client.end(),
  };
}

/**
 * The same, beside a relay that declares whoever is silent dead: it says that it lives, however slow the test
 * is.
 */
export async function openLivingWriter(store: Store): Promise<Writer> {
  const writer = await openWriter(store);
  const beat = setInterval(
    () => void heartbeat(writer.client, writer.instance, null).catch(() => {}),
    HEARTBEAT_MS,
  );
  const close = writer[Symbol.asyncDispose];
  return {
    ...writer,
    async [Symbol.asyncDispose]() {
      clearInterval(beat);
      await close();
    },
  };
}

/** A session of the test itself, as a role. The caller ends it. */
export function connectAs(store: Store, role: Role): Promise<Client> {
  return openSession(store.config(role));
}

/** All that is in the log. */
export async function readLog(store: Store): Promise<Placed[]> {
  const log = openLog(store);
  try {
    return await log.read();
  } finally {
    await log.close();
  }
}

const WHO = { account: 'Account1', key: 'Key00001', model: 'm' };

export function accepted(changes: Partial<EventOf<'request.accepted'>> = {}): EventOf<'request.accepted'> {
  return {
    type: 'request.accepted',
    route: '/v1/chat/completions',
    request: uuidv7(),
    ...WHO,
    sse: true,
    body_bytes: 40,
    hold_tokens: 500,
    ...changes,
  };
}

/** The fields that each event of a call has. */
function callOf({
  request,
  account,
  key,
  model,
  route,
  parents,
  end_user,
  session,
  tags,
}: EventOf<'request.accepted'>) {
  return {
    ...{ request, account, key, model, route },
    ...(parents === undefined ? {} : { parents }),
    ...(end_user === undefined ? {} : { end_user }),
    ...(session === undefined ? {} : { session }),
    ...(tags === undefined ? {} : { tags }),
  };
}

/** The ending of an accepted request. */
export function settled(
  begun: EventOf<'request.accepted'>,
  changes: Partial<EventOf<'request.settled'>> = {},
): EventOf<'request.settled'> {
  return {
    type: 'request.settled',
    ...callOf(begun),
    end_reason: 'completed',
    usage_source: 'provider',
    upstream: 'one',
    status: 200,
    input_tokens: 10,
    cache_read_tokens: 0,
    output_tokens: 20,
    reasoning_tokens: 0,
    attempt_count: 1,
    first_byte_ms: 5,
    duration_ms: 50,
    ...changes,
  };
}

/** An accepted request that is given more to spend; `changes` say how much. */
export function extended(
  begun: EventOf<'request.accepted'>,
  changes: Partial<EventOf<'request.extended'>> = {},
): EventOf<'request.extended'> {
  return {
    type: 'request.extended',
    ...callOf(begun),
    hold_tokens: begun.hold_tokens * 2,
    ...changes,
  };
}

export function registered(
  account: string = publicId(),
  name: string = account,
): EventOf<'account.registered'> {
  return { type: 'account.registered', account, name, actor: 'command-line' };
}

export function suspended(account: string): ControlEvent {
  return { type: 'account.suspended', account, actor: 'command-line' };
}
