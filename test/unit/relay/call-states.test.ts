import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import { describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import { FencingGuard } from '#db/instances/fencing-guard.ts';
import { StoreUnavailable } from '#server/instance/appender.ts';
import { Reservation } from '#server/limits/reservation.ts';
import type { Admitted } from '#server/relay/admitted.ts';
import { Call } from '#server/relay/call.ts';
import { Deadlines } from '#server/relay/deadlines.ts';
import { Registry } from '#db/registry.ts';
import { OpenCalls } from '#server/limits/open-calls.ts';
import type { Relay } from '#server/relay/relay.ts';
import { PastCalls } from '#server/limits/call-history.ts';
import { estimateCall } from '#server/relay/call-estimate.ts';
import {
  assertTransition,
  ATTEMPT_TRANSITIONS,
  CALL_TRANSITIONS,
  IllegalTransition,
  type Transitions,
} from '#server/relay/transitions.ts';
import { Target } from '#server/upstreams/target.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';
import { unsent } from '../../support/upstream/dispatched.ts';

describe.each<[string, Transitions<string>]>([
  ['call', CALL_TRANSITIONS],
  ['attempt', ATTEMPT_TRANSITIONS],
])('the states of a %s', (subject, transitions) => {
  const states = Object.keys(transitions);

  test('every transition that the table does not list is rejected', () => {
    for (const from of states)
      for (const to of states) {
        const step = (): void => assertTransition(subject, transitions, from, to);
        if (transitions[from]?.includes(to)) step();
        else expect(step).toThrow(IllegalTransition);
      }
  });

  test('every state is reachable, and only the last one is final', () => {
    const reached = new Set([states[0] as string]);
    for (const state of reached) for (const next of transitions[state] ?? []) reached.add(next);
    expect([...reached].toSorted()).toEqual(states.toSorted());
    expect(states.filter((state) => transitions[state]?.length === 0)).toEqual([states.at(-1)]);
  });
});

const KEY = { id: 'k', account: 'a' } as Key;

type Sent = { reason: string; status: number; attempts: number };
type Exchange = (handler: Dispatcher.DispatchHandler) => void;

/** A call whose upstreams behave as scripted, and everything that it did to its surroundings. */
function scripted(exchanges: readonly Exchange[], { records = true, retries = 0, overlapped = false } = {}) {
  const settled: Sent[] = [];
  const events: EventOf<'request.settled'>[] = [];
  const released: string[] = [];
  const written: unknown[][] = [];
  const response = Object.assign(new EventEmitter(), {
    destroyed: false,
    writableFinished: true,
    headersSent: false,
    statusCode: 0,
    writeHead(status: number) {
      Object.assign(this, { headersSent: true, statusCode: status });
      written.push(['head', status]);
    },
    flushHeaders() {},
    write: (bytes: Buffer) => written.push(['write', String(bytes)]) > 0,
    end: (bytes?: Buffer) => written.push(['end', String(bytes ?? '')]),
  }) as unknown as ServerResponse;
  const bytes = Buffer.from('{"model":"m","messages":[],"stream":true}');
  const parsed = parseChatCompletion(bytes) as ParsedRequest;
  const upstream = unsent('a', { retries });
  let sent = 0;
  const handlers: Dispatcher.DispatchHandler[] = [];
  for (const pool of upstream.pools)
    pool.send = (_call, _request, handler) => {
      handlers.push(handler);
      handler.onRequestStart?.(CONTROLLER, {});
      exchanges[sent++]?.(handler);
    };
  const hold = new Reservation([], [], { tokens: 100, cost: 0 }, 0);
  const fencing = new FencingGuard();
  fencing.begin(performance.now());
  const relay = {
    running: new Registry(),
    overlapped,
    draining: false,
    fencing,
    deadlines: new Deadlines(),
    timeouts: { firstByteMs: 9_000, idleMs: 9_000, totalMs: 9_000 },
  } as unknown as Relay;
  const instance = {
    appender: {
      mode: 'up',
      accept: () => (records ? Promise.resolve() : Promise.reject(new StoreUnavailable(overlapped))),
      settle: (event: EventOf<'request.settled'>) => {
        settled.push({ reason: event.end_reason, status: event.status, attempts: event.attempt_count });
        events.push(event);
      },
      note() {},
    },
    limits: { release: () => released.push('hold'), settle() {} },
  };
  const call = new Call(relay, {
    key: KEY,
    context: { route: '/v1/chat/completions', origin: null, address: '' },
    parsed,
    attribution: {},
    parents: [],
    body: { bytes, slab: null },
    route: '/v1/chat/completions',
    model: 'm',
    targets: [new Target(upstream, null)],
    heldBy: null,
    subjects: [],
    termsPosition: 0,
    price: null,
    estimate: estimateCall(bytes, parsed, [], null, PAST, 0),
    past: PAST,
    hold,
    open: new OpenCalls({ process: 1e9, account: 1e9, key: 1e9 }).open(KEY, []),
    instance,
    response,
    reply: { requestId: 'r', extraHeaders: [] },
    keyed: null,
    retryCount: undefined,
    protocolHeaders: [],
    startedMs: performance.now(),
  } as unknown as Admitted);
  return { call, relay, events, settled, released, written, handlers, upstream, response };
}

const PAST = new PastCalls(null);

const CONTROLLER = {
  aborted: false,
  paused: false,
  reason: null,
  rawHeaders: null,
  rawTrailers: null,
  abort() {},
  pause() {},
  resume() {},
} as unknown as Dispatcher.DispatchController;
const SSE = { 'content-type': 'text/event-stream' };
const EVENT = 'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n';

const head: Exchange = (handler) => handler.onResponseStart?.(CONTROLLER, 200, SSE, 'OK');
const reply: Exchange = (handler) => {
  head(handler);
  handler.onResponseData?.(CONTROLLER, Buffer.from(`${EVENT}data: [DONE]\n\n`));
  handler.onResponseEnd?.(CONTROLLER, {});
};
const cut: Exchange = (handler) => handler.onResponseError?.(CONTROLLER, new Error('reset'));

describe('a call', () => {
  test('is settled once, as the last of its attempts ended', async () => {
    const { call, settled, relay, upstream } = scripted([cut, reply], { retries: 1 });
    expect(await call.run()).toBeNull();
    expect(settled).toEqual([{ reason: 'completed', status: 200, attempts: 2 }]);
    expect([relay.running.size, upstream.circuit.running]).toEqual([0, 0]);
  });

  test('that could not be recorded sends nothing, is not settled, and releases its reservation', async () => {
    const { call, settled, released, handlers } = scripted([reply], { records: false });
    expect(await call.run()).toMatchObject({ code: 'store_unavailable' });
    expect([settled, released, handlers.length]).toEqual([[], ['hold'], 0]);
  });

  test('that may have been recorded is settled with the usage of the discarded attempt', async () => {
    const read: Exchange = (handler) => {
      head(handler);
      handler.onResponseData?.(CONTROLLER, Buffer.from(EVENT));
    };
    for (const exchange of [read, () => {}]) {
      const { call, events, handlers } = scripted([exchange], { records: false, overlapped: true });
      expect(await call.run()).toMatchObject({ code: 'store_unavailable' });
      expect([handlers.length, events.length]).toEqual([1, 1]);
      expect(events[0]).toMatchObject({ usage_source: 'none', input_tokens: 0, attempt_count: 1 });
      expect(events[0]?.attempts).toMatchObject([{ upstream: 'a', usage_source: 'estimated' }]);
    }
  });

  test('ends its backoff at once when it is stopped or its client disconnects', async () => {
    const stopped = scripted([cut, reply], { retries: 1 });
    const run = stopped.call.run();
    await new Promise(setImmediate);
    stopped.call.fail('shutting_down', 'service_unavailable');
    expect(await run).toBeNull();
    expect(stopped.settled).toEqual([{ reason: 'service_unavailable', status: 503, attempts: 1 }]);
    expect(stopped.written[0]).toEqual(['head', 503]);

    const left = scripted([cut, reply], { retries: 1 });
    const running = left.call.run();
    await new Promise(setImmediate);
    Object.assign(left.response, { destroyed: true });
    left.response.emit('close');
    expect(await running).toBeNull();
    expect([left.settled, left.written]).toEqual([
      [{ reason: 'client_disconnected', status: 499, attempts: 1 }],
      [],
    ]);
  });

  test('with an illegal transition throws, and is settled once as internal_error', async () => {
    const twice: Exchange = (handler) => {
      head(handler);
      handler.onResponseData?.(CONTROLLER, Buffer.from(EVENT));
      // A second head of the same reply.
      head(handler);
      handler.onResponseData?.(CONTROLLER, Buffer.from(EVENT));
    };
    const { call, settled, relay, upstream } = scripted([twice]);
    await expect(call.run()).rejects.toThrow(IllegalTransition);
    expect(settled).toEqual([{ reason: 'internal_error', status: 200, attempts: 1 }]);
    expect([relay.running.size, upstream.circuit.running]).toEqual([0, 0]);
  });
});
