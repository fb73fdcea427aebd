import type { IncomingMessage } from 'node:http';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { DroppableOutput } from '#db/diagnostics/droppable-output.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { networksOf } from '#server/access/networks.ts';
import { FAILED_LINES_MAX, LINES_WINDOW_MS, REJECTED_LINES_MAX } from '#server/diagnostics/bounds.ts';
import { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import { RequestLog } from '#server/diagnostics/request-log.ts';
import { ApiError } from '#server/errors/api-error.ts';

let lines: Record<string, unknown>[];
let nowMs: number;
let log: RequestLog;

beforeEach(() => {
  lines = [];
  nowMs = 0;
  const take = (bytes: Buffer): number => {
    for (const line of bytes.toString().trim().split('\n')) lines.push(JSON.parse(line) as never);
    return bytes.length;
  };
  const output = new DroppableOutput(() => ({
    write: (bytes, done) => done(null, take(bytes)),
    writeSync: take,
    mayBlock: false,
  }));
  log = new RequestLog(createLogger('info', null, output), () => nowMs);
});

describe('lines about requests', () => {
  it('are bounded in each window, by kind, and one line says how many were suppressed', () => {
    for (let index = 0; index < 10_000; index++) log.rejected(() => ({ index }), 'request rejected');
    log.failed(() => ({}), 'request failed');
    expect(lines).toHaveLength(REJECTED_LINES_MAX + 1);
    nowMs += LINES_WINDOW_MS;
    log.rejected(() => ({}), 'request rejected');
    expect(lines.at(-2)).toMatchObject({
      level: 'warn',
      kind: 'rejected',
      suppressed: 10_000 - REJECTED_LINES_MAX,
      msg: 'request lines suppressed',
    });
    expect(lines.at(-1)).toMatchObject({ level: 'info', msg: 'request rejected' });
  });
  it('have their fields evaluated only where they are written', () => {
    const fields = vi.fn(() => ({}));
    for (let index = 0; index < 10_000; index++) log.rejected(fields, 'request rejected');
    log.debug(fields, 'request completed');
    expect(fields).toHaveBeenCalledTimes(REJECTED_LINES_MAX);
  });
  it('are counted to the end also where no request follows', () => {
    vi.useFakeTimers();
    for (let index = 0; index <= FAILED_LINES_MAX; index++) log.failed(() => ({}), 'request failed');
    vi.advanceTimersByTime(LINES_WINDOW_MS);
    vi.useRealTimers();
    expect(lines.at(-1)).toMatchObject({ kind: 'failed', suppressed: 1 });
  });
});

const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

function diagnostics(headers: Record<string, string>, path = '/v1/chat/completions'): RequestDiagnostics {
  const request = { method: 'POST', headers, socket: { remoteAddress: '::ffff:10.1.2.3' } };
  const trustedProxies = networksOf(['10.0.0.0/8']);
  return new RequestDiagnostics(log, request as unknown as IncomingMessage, {
    requestId: 'ours',
    path,
    trustedProxies,
  });
}
const rejected = (headers: Record<string, string>, path?: string): Record<string, unknown> => {
  diagnostics(headers, path).rejected(new ApiError('invalid_api_key'));
  return lines.at(-1) ?? {};
};

describe('the line of a request', () => {
  it('has our id, the class and the reason', () =>
    expect(rejected({})).toMatchObject({
      level: 'info',
      request: 'ours',
      route: 'POST /v1/chat/completions',
      status: 401,
      code: 'invalid_api_key',
      msg: 'request rejected',
    }));
  it('has the id of a trusted front beside ours', () =>
    expect(rejected({ 'x-request-id': 'front-1.a/b=' })['front_request']).toBe('front-1.a/b='));
  it.each([
    ['is long', 'a'.repeat(129)],
    ['has other characters', 'a "b'],
    ['is empty', ''],
  ])('has no id of a front that %s', (_what, id) =>
    expect(rejected({ 'x-request-id': id })).not.toHaveProperty('front_request'),
  );
  it('has no id that a stranger sends', () => {
    const request = {
      method: 'POST',
      headers: { 'x-request-id': 'a' },
      socket: { remoteAddress: '192.0.2.1' },
    };
    new RequestDiagnostics(log, request as unknown as IncomingMessage, {
      requestId: 'ours',
      path: '/',
      trustedProxies: networksOf(['10.0.0.0/8']),
    }).rejected(new ApiError('bad_request'));
    expect(lines.at(-1)).not.toHaveProperty('front_request');
  });
  it('has the trace that the client sent, which is passed on', () => {
    expect(rejected({ traceparent: TRACE })['trace']).toBe('4bf92f3577b34da6a3ce929d0e0e4736');
    expect(diagnostics({ traceparent: TRACE }).attemptContext()).toEqual({
      traceparent: TRACE,
      tracestate: null,
    });
    const tracestate = 'vendor=1';
    expect(diagnostics({ traceparent: TRACE, tracestate }).attemptContext()).toEqual({
      ...{ traceparent: TRACE, tracestate },
    });
    expect(diagnostics({ traceparent: TRACE, tracestate: 'x'.repeat(513) }).attemptContext()).toEqual({
      ...{ traceparent: TRACE, tracestate: null },
    });
  });
  it.each([
    TRACE.toUpperCase(),
    `ff${TRACE.slice(2)}`,
    TRACE.replace(/4bf.*?(?=-)/, '0'.repeat(32)),
    TRACE.replace(/00f0.*?(?=-)/, '0'.repeat(16)),
    `${TRACE}-${'x'.repeat(200)}`,
    'Bearer secret',
  ])('ignores the trace %s', (traceparent) => {
    expect(diagnostics({ traceparent, tracestate: 'vendor=1' }).attemptContext()).toBeNull();
    expect(rejected({ traceparent })).not.toHaveProperty('trace');
  });
  it.each([
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/v1/requests/0190-abc', '/v1/requests'],
    ['/api/v1/links/abcdefgh', '/api/v1/links'],
    ['/reset/abcdefgh', 'other'],
    ['/api/v1/A1b2', 'other'],
    ['/', 'other'],
  ])('shows %s as %s, without ids and tokens', (path, shown) =>
    expect(rejected({}, path)['route']).toBe(`POST ${shown}`),
  );
  it('is one line, whatever ends the request after it', () => {
    const own = diagnostics({});
    own.fault(new TypeError('x is undefined'));
    own.rejected(new ApiError('internal_error'));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({
      level: 'error',
      error: { name: 'TypeError', message: 'x is undefined', stack: expect.any(Array) },
    });
  });
});
