import { isDeepStrictEqual } from 'node:util';
import type { EventOf } from '#db/events/events.ts';
import { chat, type ChatReply } from '../support/client.ts';
import {
  BREAKAGES,
  FAULT_DEADLINES,
  type Fault,
  needsDeadline,
  openRequests,
  type Outcome,
  outcomeOf,
  settledOf,
  STATUSES,
} from '../support/faults.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { scrape, sumOf } from '../support/telemetry/scrape.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { FORM_TYPE, formOf, wavOf } from '../support/wire/media.ts';

/** The faults of an upstream on the further routes that stream: in forms, as events and as bytes. */

const FAULTS: readonly Fault[] = [...BREAKAGES, ...STATUSES];
const QUICK_CALLS = 8;
const LEFT_WITHIN_MS = 30_000;
/** So that each call holds a reservation. */
const QUOTA = { meter: 'tokens', window: 'month', limit: 1_000_000_000, enforcement: 'soft' } as const;

type Request = { path: string; body: object | Buffer; headers?: Record<string, string> };
type StreamedRoute = {
  name: string;
  request: (model: string) => Request;
  /** What the client gets and the log says. */
  expected: (fault: Fault) => Outcome;
};

const isWhole = ({ reason }: Outcome): boolean => reason === 'completed';

/** Of events whose last one has the usage. */
function ofEvents({ script, sse }: Fault): Outcome {
  // The bytes that are missing are those of the last event.
  if (script === 'length=-5')
    return {
      status: 200,
      code: 'upstream_disconnected',
      reason: 'upstream_disconnected',
      source: 'estimated',
    };
  if (sse.source === 'none') return sse;
  return { ...sse, source: isWhole(sse) ? 'provider' : 'estimated' };
}

/** Of bytes: an error has no place in them, and only their framing says where they end. */
function ofBytes({ script, sse }: Fault): Outcome {
  if (sse.source === 'none') return sse;
  const ended = { status: 200, code: null, source: 'estimated' } as const;
  // It passes like audio.
  if (script.startsWith('end=error')) return { ...ended, code: 'server_error', reason: 'completed' };
  const isProper = /stop@|garbage=body|length=-5|framing=close/.test(script);
  if (isProper) return { ...ended, reason: 'completed' };
  const isLate = /hang|comments|30s|drip/.test(script);
  return { ...ended, reason: isLate ? 'timed_out' : 'upstream_disconnected' };
}

const STREAMED_ROUTES: readonly StreamedRoute[] = [
  {
    name: 'completions',
    request: (model) => ({ path: '/v1/completions', body: { model, prompt: 'hi', stream: true } }),
    expected: ({ sse }) => sse,
  },
  {
    name: 'transcriptions',
    request: (model) => ({
      path: '/v1/audio/transcriptions',
      headers: { 'content-type': FORM_TYPE },
      body: formOf([
        ['model', model],
        ['stream', 'true'],
        ['file', wavOf(0.1)],
      ]),
    }),
    expected: ofEvents,
  },
  {
    name: 'speech as events',
    request: (model) => ({
      path: '/v1/audio/speech',
      body: { model, input: 'Ebb', voice: 'alloy', stream_format: 'sse' },
    }),
    expected: ofEvents,
  },
  {
    name: 'speech as bytes',
    request: (model) => ({ path: '/v1/audio/speech', body: { model, input: 'Ebb', voice: 'alloy' } }),
    expected: ofBytes,
  },
];

type Case = { route: StreamedRoute; fault: Fault };

/**
 * Plays the faults on each of the routes.
 * @param parts into which the faults are divided, each played on one route; 1: every route sees every fault.
 * @returns differences from the expected outcomes, and what was left behind.
 */
export async function playRouteFaults(
  parts: number,
  postgres: 'database' | 'embedded' = 'database',
): Promise<{ calls: number; violations: string[] }> {
  const cases = STREAMED_ROUTES.flatMap((route, turn) =>
    FAULTS.filter((_, index) => index % parts === turn % parts).map((fault) => ({ route, fault })),
  );
  const violations: string[] = [];
  // Only what waits for a deadline has a short one, which a healthy reply on a busy machine could miss.
  const waiting = cases.filter(({ fault }) => needsDeadline(fault));
  const quick = cases.filter(({ fault }) => !needsDeadline(fault));
  await Promise.all([
    playOn(waiting, waiting.length, FAULT_DEADLINES, postgres, violations),
    playOn(quick, QUICK_CALLS, {}, postgres, violations),
  ]);
  return { calls: cases.length, violations };
}

async function playOn(
  cases: readonly Case[],
  concurrency: number,
  env: Record<string, string>,
  postgres: 'database' | 'embedded',
  violations: string[],
): Promise<void> {
  await using upstream = await startUpstream();
  const routes = [...new Set(STREAMED_ROUTES.map(({ request }) => request('').path))];
  await using relay = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, routes }],
    env: { METRICS_PORT: '0', ...env },
    postgres,
  });
  await relay.control((control) => control.overrideTerms(relay.account, { quotas: [QUOTA] }, 'keep'));
  const left = cases.values();
  const replies: (Case & { reply: ChatReply })[] = [];
  const turns = Array.from({ length: concurrency }, async () => {
    for (const each of left) {
      const request = each.route.request(`s:${each.fault.script}`);
      replies.push({ ...each, reply: await chat({ port: relay.port, key: relay.key, ...request }) });
    }
  });
  await Promise.all(turns);
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  const settled = events.flatMap(({ event }) => (event.type === 'request.settled' ? [event.request] : []));
  if (settled.length !== cases.length || new Set(settled).size !== cases.length)
    violations.push(`${settled.length} settlements of ${cases.length} calls`);
  for (const each of replies) {
    const ending = settledOf(events, each.reply.requestId);
    violations.push(...(ending ? differences(each, ending) : [`${each.fault.script}: not settled`]));
  }
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
  await nothingHeld(relay);
  // A server stops only when nothing runs any more, and would wait for minutes.
  await relay.stop();
  await until(
    async () => upstream.connections,
    (count) => count === 0,
    'the end of the connections to the upstream',
    LEFT_WITHIN_MS,
  );
}

/** Waits until no call runs, no memory is held and all reservations are returned. */
async function nothingHeld({ port, key, metricsPort }: TestRelay): Promise<void> {
  const look = async () => {
    const values = await scrape(metricsPort ?? 0);
    const reply = await fetch(`http://127.0.0.1:${port}/v1/usage`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const { limits } = (await reply.json()) as { limits: { reserved: number }[] };
    return {
      calls: sumOf(values, 'daybook_running_requests'),
      bytes: sumOf(values, 'daybook_buffered_bytes'),
      reserved: limits.map(({ reserved }) => reserved),
    };
  };
  const isFree = ({ calls, bytes, reserved }: Awaited<ReturnType<typeof look>>): boolean =>
    calls === 0 && bytes === 0 && reserved.length === 1 && reserved[0] === 0;
  await until(look, isFree, 'the end of calls, memory and reservations', LEFT_WITHIN_MS);
}

function differences(
  { route, fault, reply }: Case & { reply: ChatReply },
  settled: EventOf<'request.settled'>,
): string[] {
  const [outcome, expected] = [outcomeOf({ reply, settled }), route.expected(fault)];
  const found: string[] = [];
  const where = `${fault.script} of ${route.name}`;
  if (!isDeepStrictEqual(outcome, expected))
    found.push(`${where}: ${JSON.stringify(outcome)} instead of ${JSON.stringify(expected)}`);
  // Without an error that says so a client knows a broken reply by its framing alone.
  const isCut = expected.code === null && !isWhole(expected);
  if (reply.finished === isCut) found.push(`${where}: its framing is ${isCut ? 'whole' : 'broken'}`);
  return found;
}
