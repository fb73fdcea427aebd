import type { Event, EventOf, Placed } from '#db/events/events.ts';
import type { ClientRow, World } from './identity.ts';
import type { Attempt } from '../upstream/ledger.ts';

/**
 * Made-up calls for the tests of the identity checker: each is told by the upstream's ledger, the log
 * and the client alike, and a test changes the one thing that it is about.
 */
/** One call as all three sides tell it; a test changes what it is about. */
export type Call = {
  attempts: Attempt[];
  accepted: EventOf<'request.accepted'>[];
  endings: (EventOf<'request.settled'> | EventOf<'request.abandoned'>)[];
  client: ClientRow;
};
type Settled = EventOf<'request.settled'>;

const who = { account: 'accOunt1', key: 'keyKey01', model: 'm' };
export const requestId = (n: number): string => `01890000-0000-7000-8000-${String(n).padStart(12, '0')}`;

export function attempt(n: number, changes: Partial<Attempt> = {}): Attempt {
  return {
    attempt: n,
    at: n,
    connection: 1,
    id: `chatcmpl-1-${n}`,
    path: '/v1/chat/completions',
    model: 'm',
    user: `user-${n}`,
    sse: true,
    authorized: true,
    headers: [],
    requestId: null,
    askedUsage: true,
    bodyBytes: 40,
    bodySha256: '',
    status: 200,
    tokensSent: 20,
    contentBytesSent: 100,
    replyBytesSent: 4000,
    bytesSent: 4500,
    finishSent: true,
    doneSent: true,
    usageReported: { prompt: 10, completion: 25, cached: 4, reasoning: 5 },
    usageIsFinal: true,
    usageAt: n,
    clientClosedEarly: false,
    ended: 'complete',
    endedAt: n,
    ...changes,
  };
}

export function accepted(n: number): EventOf<'request.accepted'> {
  return {
    type: 'request.accepted',
    route: '/v1/chat/completions',
    request: requestId(n),
    ...who,
    sse: true,
    body_bytes: 40,
    hold_tokens: 500,
  };
}

export function settled(n: number, changes: Partial<Settled> = {}): Settled {
  return {
    type: 'request.settled',
    request: requestId(n),
    ...who,
    end_reason: 'completed',
    usage_source: 'provider',
    upstream: 'up',
    status: 200,
    input_tokens: 10,
    cache_read_tokens: 4,
    output_tokens: 25,
    reasoning_tokens: 5,
    attempt_count: 1,
    duration_ms: 3,
    ...changes,
  };
}

function client(n: number, changes: Partial<ClientRow> = {}): ClientRow {
  return {
    user: `user-${n}`,
    model: 'm',
    requestId: requestId(n),
    upstreamId: `chatcmpl-1-${n}`,
    status: 200,
    bytes: 4000,
    tokens: 20,
    sawDone: true,
    sawError: false,
    finished: true,
    aborted: false,
    ...changes,
  };
}

function abandoned(n: number): EventOf<'request.abandoned'> {
  return {
    type: 'request.abandoned',
    request: requestId(n),
    ...who,
    end_reason: 'abandoned',
    usage_source: 'estimated',
    hold_tokens: 500,
  };
}

export const counted = { usage_source: 'counted', cache_read_tokens: 0, reasoning_tokens: 0 } as const;
export const nothing = {
  usage_source: 'none',
  input_tokens: 0,
  cache_read_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
} as const;
const running = { prompt: 10, completion: 12, cached: 0, reasoning: 0 };
export const unfinished = {
  finishSent: false,
  doneSent: false,
  usageReported: null,
  usageIsFinal: false,
} as const;
const unseen = {
  requestId: null,
  upstreamId: null,
  status: null,
  bytes: 0,
  tokens: 0,
  sawDone: false,
  finished: false,
  aborted: true,
} as const;
export const failed = { upstreamId: null, bytes: 90, tokens: 0, sawDone: false, sawError: true } as const;

/** Calls of every kind in which all is well: the near misses of the rules below. */
export const WELL: Record<string, (n: number) => Call> = {
  healthy: (n) => ({
    attempts: [attempt(n)],
    accepted: [accepted(n)],
    endings: [settled(n)],
    client: client(n),
  }),
  'healthy as JSON': (n) => ({
    ...well('healthy', n),
    attempts: [attempt(n, { sse: false })],
    client: client(n, { sawDone: false }),
  }),
  'without [DONE]': (n) => ({
    ...well('healthy', n),
    attempts: [attempt(n, { doneSent: false })],
    client: client(n, { sawDone: false }),
  }),
  'without a report': (n) => ({
    ...well('healthy', n),
    attempts: [attempt(n, { usageReported: null, usageIsFinal: false })],
    endings: [settled(n, { ...counted, output_tokens: 20 })],
  }),
  'JSON without a report': (n) => ({
    ...well('healthy as JSON', n),
    attempts: [attempt(n, { sse: false, usageReported: null, usageIsFinal: false })],
    endings: [settled(n, { usage_source: 'estimated', output_tokens: 31 })],
  }),
  'cut by the upstream': (n) => ({
    ...well('healthy', n),
    attempts: [attempt(n, { ...unfinished, tokensSent: 7, ended: 'cut' })],
    endings: [settled(n, { ...counted, end_reason: 'upstream_disconnected', output_tokens: 7 })],
    client: client(n, { tokens: 7, sawDone: false, sawError: true }),
  }),
  'cut in the middle of JSON': (n) => ({
    ...well('healthy', n),
    attempts: [attempt(n, { ...unfinished, sse: false, tokensSent: 7, ended: 'cut' })],
    endings: [settled(n, { usage_source: 'estimated', end_reason: 'upstream_disconnected' })],
    client: client(n, { tokens: 0, sawDone: false, finished: false }),
  }),
  'left by the client': (n) => ({
    ...well('healthy', n),
    attempts: [
      attempt(n, { ...unfinished, tokensSent: 12, ended: 'client_closed', clientClosedEarly: true }),
    ],
    endings: [settled(n, { ...counted, end_reason: 'client_disconnected', output_tokens: 9 })],
    client: client(n, { tokens: 6, sawDone: false, finished: false, aborted: true }),
  }),
  'left by the client after the end': (n) => ({
    ...well('healthy', n),
    client: client(n, { tokens: 6, sawDone: false, finished: false, aborted: true }),
  }),
  'left in the middle of running totals': (n) => ({
    ...well('left by the client', n),
    attempts: [attempt(n, { ...unfinished, tokensSent: 12, usageReported: running, ended: 'client_closed' })],
    endings: [
      settled(n, {
        end_reason: 'client_disconnected',
        cache_read_tokens: 0,
        output_tokens: 8,
        reasoning_tokens: 0,
      }),
    ],
  }),
  'lost on the way to the client': (n) => ({
    ...well('left by the client', n),
    client: client(n, { tokens: 6, sawDone: false, finished: false }),
  }),
  'left before the first token': (n) => ({
    ...well('left by the client', n),
    endings: [settled(n, { usage_source: 'estimated', end_reason: 'client_disconnected' })],
    client: client(n, { tokens: 0, sawDone: false, finished: false, aborted: true }),
  }),
  'left before it saw anything': (n) => ({
    ...well('left by the client', n),
    endings: [settled(n, { ...counted, end_reason: 'client_disconnected', output_tokens: 0, status: 499 })],
    client: client(n, unseen),
  }),
  'refused by the upstream': (n) => ({
    ...well('healthy', n),
    attempts: [attempt(n, { ...unfinished, status: 500, tokensSent: 0, ended: 'refused' })],
    endings: [settled(n, { ...nothing, end_reason: 'upstream_rejected', status: 502 })],
    client: client(n, { ...failed, status: 502 }),
  }),
  'tried twice': (n) => ({
    ...well('healthy', n),
    attempts: [
      attempt(n, { ...unfinished, id: 'first', status: 503, tokensSent: 0, ended: 'refused' }),
      attempt(n),
    ],
    endings: [settled(n, { attempt_count: 2 })],
  }),
  'never reached the upstream': (n) => ({
    ...well('healthy', n),
    attempts: [],
    endings: [settled(n, { ...nothing, end_reason: 'upstream_unreachable', status: 502, attempt_count: 1 })],
    client: client(n, { ...failed, status: 502 }),
  }),
  'refused by the relay': (n) => ({
    attempts: [],
    accepted: [],
    endings: [],
    client: client(n, { ...failed, status: 401 }),
  }),
  abandoned: (n) => ({
    ...well('left by the client', n),
    endings: [abandoned(n)],
    client: client(n, { sawDone: false, finished: false, tokens: 5 }),
  }),
};

export function well(name: string, n: number): Call {
  const make = WELL[name];
  if (!make) throw new Error(`there is no call "${name}"`);
  return make(n);
}

/** All acceptances stand in the log before all endings, as they may under load. */
export function worldOf(calls: Call[], accounting: World['accounting'] = 'strict'): World {
  const events: Event[] = [
    ...calls.flatMap((call) => call.accepted),
    ...calls.flatMap((call) => call.endings),
  ];
  return {
    ledger: calls.flatMap((call) => call.attempts),
    clients: calls.map((call) => call.client),
    events: events.map((event, index) => place(event, index + 1)),
    accounting,
  };
}

export function place(event: Event, position: number): Placed {
  return { shard: 0, position, at: new Date(0), instance: 1, stream: null, version: null, event };
}
