import type { Client } from 'pg';
import type { ControlEvent, EventOf, PlanTerms, RequestEvent } from '#db/events/events.ts';
import { publicId, uuidv7 } from '#db/ids.ts';
import { appendControl, appendRequests, type ControlAppend } from '#db/log/append.ts';
import { readHead } from '#db/log/read.ts';
import { minuteOf } from '#db/limits/windows.ts';

/** Who calls, and under which terms. */
export type Tenants = { keys: { account: string; key: string }[]; termsPosition: number };

/** A writer of a log that has tenants. */
export type Backlog = {
  client: Client;
  instance: number;
  tenants: Tenants;
  /** The last batch number that was used. */
  batchNo: number;
};

const ACTOR = 'bench';
const ACCOUNTS = 20;
const KEYS_PER_ACCOUNT = 3;
const MODELS = ['gpt-4o', 'gpt-4o-mini', 'claude-sonnet', 'llama-70b'];
const CALLS_PER_BATCH = 500;
/** Half of the calls are attributed: to an end user, a session and two tags of so many. */
const ATTRIBUTED = { endUsers: 10_000, sessions: 100_000, tags: 40 };

/** Accounts on a plan with quotas far above the usage, each with a few keys. */
export async function defineTenants(client: Client, instance: number, accounts = ACCOUNTS): Promise<Tenants> {
  const quotas: PlanTerms['quotas'] = [
    { meter: 'tokens', window: 'day', limit: 10 ** 12, enforcement: 'hard' },
    { meter: 'cost_nanousd', window: 'month', limit: 10 ** 15, enforcement: 'soft' },
  ];
  const plan: ControlEvent = { type: 'plan.defined', plan: 'bench', terms: { quotas }, actor: ACTOR };
  const appends: ControlAppend[] = [{ event: plan, version: 1 }];
  const keys: Tenants['keys'] = [];
  for (let number = 0; number < accounts; number++) {
    const account = publicId();
    appends.push(
      { event: { type: 'account.registered', account, name: `bench ${number}`, actor: ACTOR }, version: 1 },
      {
        event: { type: 'account.plan_changed', account, plan: 'bench', windows: 'keep', actor: ACTOR },
        version: 2,
      },
    );
    for (let of = 0; of < KEYS_PER_ACCOUNT; of++) {
      const key = publicId();
      const secret = { digest: '0'.repeat(64), last4: 'zzzz' };
      appends.push({
        event: { type: 'key.created', account, key, name: 'bench', ...secret, actor: ACTOR },
        version: 1,
      });
      keys.push({ account, key });
    }
  }
  await appendControl(client, instance, 1, appends);
  return { keys, termsPosition: await readHead(client) };
}

/**
 * Appends this many events: calls of which most end in a later batch than they began, as running replies do.
 */
export async function appendBacklog(backlog: Backlog, events: number, signal: AbortSignal): Promise<void> {
  let running: EventOf<'request.accepted'>[] = [];
  for (let written = 0; written < events;) {
    signal.throwIfAborted();
    const begun = Array.from({ length: CALLS_PER_BATCH }, () => accept(backlog.tenants));
    const batch: RequestEvent[] = [...begun, ...running.map(settle)];
    running = begun;
    await append(backlog, batch);
    written += batch.length;
  }
  await append(backlog, running.map(settle));
}

/** Calls that begin and end at once, one after the other. */
export async function appendCalls(backlog: Backlog, calls: number): Promise<void> {
  const begun = Array.from({ length: calls }, () => accept(backlog.tenants));
  await append(
    backlog,
    begun.flatMap((event) => [event, settle(event)]),
  );
}

async function append(backlog: Backlog, events: readonly RequestEvent[]): Promise<void> {
  await appendRequests(backlog.client, backlog.instance, ++backlog.batchNo, events);
}

const below = (bound: number): number => Math.floor(Math.random() * bound);
const oneOf = <T>(values: readonly T[]): T => values[below(values.length)] as T;

function accept({ keys, termsPosition }: Tenants): EventOf<'request.accepted'> {
  return {
    type: 'request.accepted',
    route: '/v1/chat/completions',
    request: uuidv7(),
    ...oneOf(keys),
    model: oneOf(MODELS),
    sse: below(3) > 0,
    body_bytes: 400 + below(8_000),
    hold_tokens: 1_500,
    hold_cost_nanousd: 9_000,
    admitted_minute: minuteOf(Date.now()),
    terms_position: termsPosition,
    ...(below(2) === 0 ? attribution() : {}),
  };
}

const pseudonym = (kind: string, number: number): string =>
  kind + String(number).padStart(16 - kind.length, '0');

function attribution(): Pick<EventOf<'request.accepted'>, 'end_user' | 'session' | 'tags'> {
  const { endUsers, sessions, tags } = ATTRIBUTED;
  return {
    end_user: pseudonym('User', below(endUsers)),
    session: pseudonym('Session', below(sessions)),
    tags: [pseudonym('TagA', below(tags)), pseudonym('TagB', below(tags))],
  };
}

function settle({
  request,
  account,
  key,
  model,
  admitted_minute = 0,
  terms_position = 0,
  end_user,
  session,
  tags,
}: EventOf<'request.accepted'>): EventOf<'request.settled'> {
  const hasFailed = below(50) === 0;
  return {
    type: 'request.settled',
    request,
    account,
    key,
    model,
    route: '/v1/chat/completions',
    admitted_minute,
    terms_position,
    end_user,
    session,
    tags,
    end_reason: hasFailed ? 'upstream_error' : 'completed',
    usage_source: hasFailed ? 'none' : 'provider',
    upstream: 'mock',
    status: hasFailed ? 502 : 200,
    input_tokens: hasFailed ? 0 : 100 + below(900),
    cache_read_tokens: 0,
    output_tokens: hasFailed ? 0 : 20 + below(400),
    reasoning_tokens: 0,
    cost_nanousd: hasFailed ? 0 : 100 + below(5_000),
    price_version: 1,
    attempt_count: 1,
    first_byte_ms: 100 + below(700),
    duration_ms: 300 + below(9_000),
  };
}
