import type { EndReason, UsageSource } from '#db/events/endings.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import type { ChatReply } from './client.ts';
import type { TestRelay } from './relay.ts';
import { callScript } from './upstream/scripted-call.ts';
import type { ScriptedUpstream } from './upstream/upstream.ts';

/** What a client is to get for a misbehaviour of the upstream, and what the log is to say. */
export type Outcome = {
  status: number;
  /** The code of the error that the client sees, as the reply or within the stream; null: it sees none. */
  code: string | null;
  reason: EndReason;
  source: UsageSource;
};

/** A script of the upstream with its outcome when the client asks for JSON and for SSE. */
export type Fault = { script: string; json: Outcome; sse: Outcome };

const refused = (status: number, code: string, reason: EndReason): Outcome => ({
  status,
  code,
  reason,
  source: 'none',
});
const broken = (status: number, code: string, reason: EndReason): Outcome => ({
  status,
  code,
  reason,
  source: 'estimated',
});
const inBand = (code: string, reason: EndReason): Outcome => ({
  status: 200,
  code,
  reason,
  source: 'counted',
});
const whole = (source: UsageSource): Outcome => ({ status: 200, code: null, reason: 'completed', source });
const both = (script: string, outcome: Outcome): Fault => ({ script, json: outcome, sse: outcome });

const CUT = refused(502, 'upstream_error', 'upstream_disconnected');
const TIMED_OUT = refused(504, 'upstream_timeout', 'timed_out');
const CUT_BODY = {
  json: broken(502, 'upstream_disconnected', 'upstream_disconnected'),
  sse: inBand('upstream_disconnected', 'upstream_disconnected'),
};
const SILENT_BODY = {
  json: broken(504, 'upstream_timeout', 'timed_out'),
  sse: inBand('upstream_timeout', 'timed_out'),
};

/** An upstream that breaks off, falls silent or talks nonsense. */
export const BREAKAGES: Fault[] = [
  both('end=cut@head', CUT),
  both('end=reset@head', CUT),
  both('end=hang@head', TIMED_OUT),
  both('head=30s', TIMED_OUT),
  { script: 'end=cut@body', ...CUT_BODY },
  { script: 'end=reset@body', ...CUT_BODY },
  { script: 'end=hang@body', ...SILENT_BODY },
  { script: 'first=30s', ...SILENT_BODY },
  { script: 'end=comments@body', ...SILENT_BODY },
  { script: 'end=cut@3', ...CUT_BODY },
  { script: 'end=cut@3,text=utf8,split=chars', ...CUT_BODY },
  { script: 'end=cut@3,split=7', ...CUT_BODY },
  { script: 'end=reset@3', ...CUT_BODY },
  { script: 'end=hang@3', ...SILENT_BODY },
  { script: 'end=comments@3', ...SILENT_BODY },
  { script: 'every=30s', ...SILENT_BODY },
  { script: 'tokens=100,drip=20ms', ...SILENT_BODY },
  // All of a stream that counts has come when its finish_reason has: what breaks then is no loss.
  { script: 'end=cut@finish', json: CUT_BODY.json, sse: whole('counted') },
  { script: 'end=reset@finish', json: CUT_BODY.json, sse: whole('counted') },
  { script: 'end=hang@finish', json: SILENT_BODY.json, sse: whole('counted') },
  { script: 'end=cut@usage', json: CUT_BODY.json, sse: whole('provider') },
  { script: 'end=hang@usage', json: SILENT_BODY.json, sse: whole('provider') },
  { script: 'end=stop@usage', json: broken(502, 'upstream_error', 'upstream_error'), sse: whole('provider') },
  { script: 'end=cut@done', json: whole('provider'), sse: whole('provider') },
  { script: 'end=hang@done', json: whole('provider'), sse: whole('provider') },
  { script: 'end=stop@body', json: broken(502, 'upstream_error', 'upstream_error'), sse: CUT_BODY.sse },
  { script: 'end=stop@3', json: broken(502, 'upstream_error', 'upstream_error'), sse: CUT_BODY.sse },
  {
    script: 'end=error@3',
    json: { ...broken(200, 'server_error', 'upstream_error') },
    sse: inBand('server_error', 'upstream_error'),
  },
  { script: 'length=-5', json: broken(502, 'upstream_error', 'upstream_error'), sse: whole('provider') },
  { script: 'length=+5', json: CUT_BODY.json, sse: whole('provider') },
  {
    script: 'framing=close,end=cut@3',
    json: broken(502, 'upstream_error', 'upstream_error'),
    sse: CUT_BODY.sse,
  },
  both('garbage=http', CUT),
  { script: 'garbage=body', json: broken(502, 'upstream_error', 'upstream_error'), sse: CUT_BODY.sse },
  both('headers=200KB', CUT),
];

/**
 * An upstream that refuses. The client's faults keep their status, the relay's own and the provider's don't.
 */
export const STATUSES: Fault[] = [
  both('status=400', refused(400, 'upstream_rejected', 'upstream_rejected')),
  both('status=400,body=html', refused(400, 'upstream_rejected', 'upstream_rejected')),
  both('status=400,body=empty', refused(400, 'upstream_rejected', 'upstream_rejected')),
  both('status=401', refused(502, 'upstream_unauthorized', 'upstream_error')),
  both('status=403', refused(502, 'upstream_unauthorized', 'upstream_error')),
  both('status=404', refused(404, 'model_not_found', 'upstream_rejected')),
  both('status=408', refused(504, 'upstream_timeout', 'timed_out')),
  both('status=409', refused(502, 'upstream_error', 'upstream_error')),
  both('status=413', refused(413, 'request_too_large', 'upstream_rejected')),
  both('status=422', refused(422, 'upstream_rejected', 'upstream_rejected')),
  both('status=429', refused(503, 'upstream_rate_limited', 'upstream_error')),
  both('status=500', refused(502, 'upstream_error', 'upstream_error')),
  both('status=500,body=html', refused(502, 'upstream_error', 'upstream_error')),
  both('status=500,end=cut@0', refused(502, 'upstream_error', 'upstream_error')),
  both('status=503', refused(503, 'upstream_error', 'upstream_error')),
  both('status=504', refused(504, 'upstream_timeout', 'timed_out')),
  both('status=999', refused(502, 'upstream_error', 'upstream_error')),
  both('status=302', refused(502, 'upstream_error', 'upstream_error')),
  both('status=304', refused(502, 'upstream_error', 'upstream_error')),
  both('status=101', CUT),
];

/**
 * A healthy upstream in each of the ways that providers tell their usage, and with odd but proper framing.
 */
export const HEALTHY: Fault[] = [
  both('tokens=12', whole('provider')),
  ...['gzip', 'deflate', 'br', 'zstd'].map((encoding) => both(`encoding=${encoding}`, whole('provider'))),
  both('tokens=0', whole('provider')),
  both('tokens=12,cached=9,reasoning=30', whole('provider')),
  both('tokens=12,prompt=40,cached=9,written=20', whole('provider')),
  ...['always', 'finish', 'every', 'nulls'].map((usage) =>
    both(`tokens=12,usage=${usage}`, whole('provider')),
  ),
  // A stream can be counted as it passes, a JSON reply only be guessed by its size.
  { script: 'tokens=12,usage=never', json: whole('estimated'), sse: whole('counted') },
  { script: 'tokens=12,usage=broken', json: whole('estimated'), sse: whole('counted') },
  both('tokens=12,tools=2', whole('provider')),
  both('tokens=12,framing=close', whole('provider')),
  both('tokens=12,framing=length', whole('provider')),
  both('tokens=12,framing=chunked', whole('provider')),
  both('tokens=12,connection=close', whole('provider')),
  both('tokens=12,idle=5ms', whole('provider')),
  both('tokens=12,eol=crlf,space=no,batch=5', whole('provider')),
  both('tokens=12,text=utf8,split=chars', whole('provider')),
  both('tokens=12,text=utf8,split=lines', whole('provider')),
  both('tokens=12,text=utf8,split=1', whole('provider')),
  both('tokens=12,text=utf8,split=random', whole('provider')),
];

/**
 * Deadlines of a relay to which all of this happens at the same time: long enough for a healthy reply on a
 * busy machine, short enough to wait for them.
 */
export const FAULT_DEADLINES = {
  UPSTREAM_CONNECT_TIMEOUT_MS: '5000',
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '6000',
  UPSTREAM_IDLE_TIMEOUT_MS: '6000',
  UPSTREAM_TOTAL_TIMEOUT_MS: '12000',
};

type Settled = EventOf<'request.settled'>;
export type Played = { fault: Fault; kind: 'json' | 'sse'; reply: ChatReply; settled: Settled };

/** Calls at the same time that wait for nothing: their delays must stay far below the deadlines. */
const QUICK_CALLS = 8;
/** What ends a call only at a deadline. */
const WAITING = /hang|stop|comments|30s|drip/;
export const needsDeadline = ({ script }: Pick<Fault, 'script'>): boolean => WAITING.test(script);
/** What closes a connection soon after its reply: a call sent on it in that moment is lost. */
const CLOSING = /idle=/;

/**
 * Lets the upstream misbehave in all these ways; returns when each call has its ending in the log. The calls
 * that end by a deadline run all at the same time, the others a few at a time beside them, and those after
 * which no other call may use their connection at the end.
 * @param modelOf what the relay routes to the upstream with the fault's script; default: the script itself.
 */
export async function playFaults(
  relay: Pick<TestRelay, 'port' | 'key' | 'waitFor'>,
  upstream: ScriptedUpstream,
  faults: readonly Fault[],
  modelOf: (fault: Fault, kind: Played['kind']) => string = ({ script }) => `s:${script}`,
): Promise<{ played: Played[]; events: Placed[] }> {
  const cases = faults.flatMap((fault) => (['json', 'sse'] as const).map((kind) => ({ fault, kind })));
  const play = async ({ fault, kind }: Pick<Played, 'fault' | 'kind'>) => {
    const { reply } = await callScript(
      upstream,
      fault.script,
      { model: modelOf(fault, kind), stream: kind === 'sse' },
      { port: relay.port, key: relay.key },
    );
    return { fault, kind, reply };
  };
  const {
    waiting = [],
    closing = [],
    quick = [],
  } = Object.groupBy(cases, ({ fault: { script } }) => {
    if (CLOSING.test(script)) return 'closing';
    return needsDeadline({ script }) ? 'waiting' : 'quick';
  });
  const left = quick.values();
  const turns = Array.from({ length: QUICK_CALLS }, async () => {
    const calls: Awaited<ReturnType<typeof play>>[] = [];
    for (const each of left) calls.push(await play(each));
    return calls;
  });
  const calls = (await Promise.all([...waiting.map(play), ...turns])).flat();
  calls.push(...(await Promise.all(closing.map(play))));
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  const played = calls.map((call) => {
    const settled = settledOf(events, call.reply.requestId);
    if (!settled)
      throw new Error(`${call.fault.script}: nothing is settled for the request ${call.reply.requestId}`);
    return { ...call, settled };
  });
  return { played, events };
}

/** What came of a call, in the words of its {@link Fault}. */
export function outcomeOf({ reply, settled }: Pick<Played, 'reply' | 'settled'>): Outcome {
  return {
    status: reply.status ?? 0,
    code: errorCodeOf(reply),
    reason: settled.end_reason,
    source: settled.usage_source,
  };
}

/**
 * The code of the error object that a client got, as the reply or within the stream; null when it got none.
 */
export function errorCodeOf(reply: Pick<ChatReply, 'json' | 'events'>): string | null {
  const errors = [reply.json, ...reply.events].flatMap((value) =>
    typeof value === 'object' && value !== null && 'error' in value ? [value.error as { code: string }] : [],
  );
  if (errors.length > 1) throw new Error(`${errors.length} errors in one reply: ${JSON.stringify(errors)}`);
  return errors[0]?.code ?? null;
}

/** The requests of a log that have no ending yet. */
export function openRequests(events: readonly Placed[]): string[] {
  const open = new Set<string>();
  for (const { event } of events) {
    if (event.type === 'request.accepted') open.add(event.request);
    else if (event.type === 'request.settled' || event.type === 'request.abandoned')
      open.delete(event.request);
  }
  return [...open];
}

/** The settlement of a request. */
export function settledOf(events: readonly Placed[], request: string | null): Settled | undefined {
  return events
    .map(({ event }) => event)
    .find((event): event is Settled => event.type === 'request.settled' && event.request === request);
}
