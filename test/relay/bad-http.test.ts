import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exchange } from '../support/exchange.ts';
import {
  CHAT,
  expectRefusal,
  HELLO,
  onlyReply,
  rawRequest,
  type RawReply,
  readReplies,
  requestIdsOf,
} from '../support/wire/raw-http.ts';
import { AS_OPERATOR, READYZ_TOKEN } from '../support/servers/operator.ts';
import { footprint, readiness, startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

let upstream: ScriptedUpstream;
let relay: TestRelay;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
  key = `Authorization: Bearer ${relay.key}`;
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** Sends raw bytes that are to leave no trace. */
async function untraced(request: Buffer | string | (Buffer | string)[], method = 'POST'): Promise<RawReply> {
  const before = await footprint(relay, upstream);
  const reply = onlyReply(await exchange(relay.port, request), method);
  expect(await footprint(relay, upstream)).toEqual(before);
  return reply;
}

const start = (method: string, target: string): { start: string; body: string } => ({
  start: `${method} ${target} HTTP/1.1`,
  body: '',
});

describe('each route takes its own methods and reports which', () => {
  test.each(['GET', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND'])(
    '%s of chat completions is a 405',
    async (method) => {
      const reply = await untraced(rawRequest([key], start(method, CHAT)), method);
      expectRefusal(reply, 405, 'method_not_allowed');
      expect(reply.header('allow')).toBe('POST, OPTIONS');
    },
  );

  test.each([
    ['POST', '/v1/models', 'GET, HEAD, OPTIONS'],
    ['DELETE', '/v1/models', 'GET, HEAD, OPTIONS'],
    ['POST', '/healthz', 'GET, HEAD'],
    ['PUT', '/readyz', 'GET, HEAD'],
  ])('%s of %s is a 405', async (method, path, allow) => {
    const reply = await untraced(rawRequest([key], { ...start(method, path), body: HELLO }), method);
    expectRefusal(reply, 405, 'method_not_allowed');
    expect(reply.header('allow')).toBe(allow);
  });

  test('HEAD of chat completions is a 405 without a body', async () => {
    const reply = await untraced(rawRequest([key], start('HEAD', CHAT)), 'HEAD');
    expect([reply.status, reply.body.length, requestIdsOf(reply).length]).toEqual([405, 0, 1]);
  });

  test('a method that HTTP does not know is a 400', async () => {
    expectRefusal(await untraced(rawRequest([key], start('FETCH', CHAT))), 400, 'bad_request');
  });
});

describe('a path that is no route is a 404', () => {
  test.each([
    '/',
    '/v1',
    '/v1/',
    '/v1/chat',
    '/v1/chat/completionsx',
    '/v1/chat/completions/x',
    '/V1/chat/completions',
    '/v1/Chat/completions',
    '/v1/chat/completions.json',
    '/v1/chat%2Fcompletions',
    '/v1/chat/./completions',
    '/v1/models/../chat/completions',
    '/chat/completions',
    '/v1/responsesx',
    '/v1/responses/resp_1/x',
    '/v1/completion',
    '/v2/chat/completions',
    '/v1/chat/completions;x=1',
    '/healthz/x',
    '/v1/chat/completions%00',
    '*',
    'http://127.0.0.1',
    'http://127.0.0.1?x',
  ])('%s', async (target) => {
    expectRefusal(
      await untraced(rawRequest([key], { ...start('POST', target), body: HELLO })),
      404,
      'route_not_found',
    );
  });

  test('a path of 8 KB', async () => {
    expectRefusal(
      await untraced(rawRequest([key], start('POST', `/${'x'.repeat(8_000)}`))),
      404,
      'route_not_found',
    );
  });

  test('a path that cannot be decoded is refused', async () => {
    expectRefusal(await untraced(rawRequest([key], start('POST', '/v1/%zz'))), 404, 'route_not_found');
  });

  test.each([
    '/v1//chat/completions',
    '//v1/chat/completions',
    '/v1/chat//completions',
    '/v1/chat/completions/',
    '/v1/chat/completions//',
    `${CHAT}?beta=true`,
    `${CHAT}/?x`,
  ])('%s is the route all the same', async (target) => {
    const reply = onlyReply(
      await exchange(relay.port, rawRequest([key], { ...start('POST', target), body: HELLO })),
    );
    expect([reply.status, requestIdsOf(reply).length]).toEqual([200, 1]);
  });
});

describe('Expect', () => {
  test('100-continue with an invalid key is a 401, and the body is not asked for', async () => {
    const lines = ['Authorization: Bearer x', 'Expect: 100-continue', `Content-Length: ${HELLO.length}`];
    const bytes = await exchange(relay.port, rawRequest(lines, { body: '' }));
    expectRefusal(onlyReply(bytes), 401, 'invalid_api_key');
    expect(bytes.toString()).not.toContain('100 Continue');
  });

  test('100-continue for a body that is too large is a 413, and the body is not asked for', async () => {
    const bytes = await exchange(
      relay.port,
      rawRequest([key, 'Expect: 100-continue', 'Content-Length: 40000000'], { body: '' }),
    );
    expectRefusal(onlyReply(bytes), 413, 'request_too_large');
    expect(bytes.toString()).not.toContain('100 Continue');
  });

  test('100-continue with a valid key: the body is asked for, then answered', async () => {
    const reply = await new Promise<string>((resolve) => {
      let text = '';
      const socket = connect(relay.port, '127.0.0.1', () => {
        socket.write(
          rawRequest([key, 'Expect: 100-continue', `Content-Length: ${HELLO.length}`, 'Connection: close'], {
            body: '',
          }),
        );
      });
      socket.on('data', (bytes) => {
        text += bytes.toString();
        if (text === 'HTTP/1.1 100 Continue\r\n\r\n') socket.write(HELLO);
      });
      socket.on('close', () => resolve(text));
    });
    expect(reply).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  });

  test('anything else is a 417', async () => {
    expectRefusal(await untraced(rawRequest([key, 'Expect: a-miracle'])), 417, 'expectation_failed');
  });
});

describe('a message that is no proper HTTP is a 400 with an error object, and the connection ends', () => {
  const framed = (...lines: string[]): Buffer => rawRequest([key, ...lines], { body: '' });
  test.each<[name: string, request: () => Buffer | string]>([
    [
      'Content-Length and Transfer-Encoding',
      () =>
        Buffer.concat([framed('Content-Length: 5', 'Transfer-Encoding: chunked'), Buffer.from('0\r\n\r\n')]),
    ],
    [
      'two different Content-Lengths',
      () => Buffer.concat([framed('Content-Length: 58', 'Content-Length: 5'), Buffer.from(HELLO)]),
    ],
    ['a negative Content-Length', () => framed('Content-Length: -1')],
    ['a Content-Length that is no number', () => framed('Content-Length: many')],
    ['a Content-Length with a plus sign', () => framed('Content-Length: +5')],
    ['a Content-Length beyond 64 bits', () => framed(`Content-Length: ${'9'.repeat(30)}`)],
    ['a header without a name', () => framed(': nameless')],
    ['a header without a colon', () => framed('nonsense')],
    ['a NUL in another header', () => framed('x-note: a\0b')],
    ['a bare CR in another header', () => framed('x-note: a\rb')],
    ['a folded header', () => framed('x-note: a\r\n b')],
    ['no Host in HTTP/1.1', () => `POST ${CHAT} HTTP/1.1\r\n${key}\r\nContent-Length: 0\r\n\r\n`],
    ['an unknown version', () => `POST ${CHAT} HTTP/3.7\r\n\r\n`],
    ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a TLS greeting', () => Buffer.from('160301020001000001fc0303', 'hex')],
    ['a bare LF as line end', () => `POST ${CHAT} HTTP/1.1\nHost: x\n\n`],
    ['a blank in the target', () => `POST ${CHAT} x HTTP/1.1\r\nHost: x\r\n\r\n`],
    ['binary noise', () => Buffer.from([0, 1, 2, 3, 255, 254, 13, 10, 13, 10])],
  ])('%s', async (_name, request) => {
    expectRefusal(await untraced(request()), 400, 'bad_request');
  });

  test.each(['x-note', 'cookie'])('one header %s of 40 KB is a 431', async (name) => {
    expectRefusal(
      await untraced(rawRequest([key, `${name}: ${'x'.repeat(40 * 1024)}`])),
      431,
      'headers_too_large',
    );
  });

  test('forty headers of 1 KB are a 431', async () => {
    const lines = Array.from({ length: 40 }, (_, at) => `x-note-${at}: ${'x'.repeat(1024)}`);
    expectRefusal(await untraced(rawRequest([key, ...lines])), 431, 'headers_too_large');
  });

  test('a target of 40 KB is a 431', async () => {
    expectRefusal(
      await untraced(rawRequest([key], start('POST', `/${'x'.repeat(40 * 1024)}`))),
      431,
      'headers_too_large',
    );
  });

  test('30 KB of headers are fine', async () => {
    const lines = Array.from({ length: 30 }, (_, at) => `x-note-${at}: ${'x'.repeat(1000)}`);
    expect(onlyReply(await exchange(relay.port, rawRequest([key, ...lines]))).status).toBe(200);
  });

  test.each([
    ['a bad chunk size', 'zz\r\n'],
    ['a chunk that is longer than its size', '2\r\n{"model"\r\n'],
    ['a negative chunk size', '-1\r\n'],
  ])('%s in the body', async (_name, chunk) => {
    expectRefusal(
      await untraced([rawRequest([key, 'Transfer-Encoding: chunked'], { body: '' }), chunk]),
      400,
      'bad_request',
    );
  });

  test.each<[name: string, lines: () => string[], body: string]>([
    [
      'a body that ends before its Content-Length',
      () => [key, `Content-Length: ${HELLO.length}`],
      HELLO.slice(0, 20),
    ],
    [
      'a chunked body without an end',
      () => [key, 'Transfer-Encoding: chunked'],
      `${HELLO.length.toString(16)}\r\n${HELLO}\r\n`,
    ],
  ])('%s, when the client closes, is never relayed', async (_name, lines, body) => {
    const before = await footprint(relay, upstream);
    await new Promise<void>((resolve) => {
      const socket = connect(relay.port, '127.0.0.1', () =>
        socket.end(Buffer.concat([rawRequest(lines(), { body: '' }), Buffer.from(body)])),
      );
      socket.resume();
      socket.on('close', () => resolve());
    });
    expect((await readiness(relay.port)).status).toBe(200);
    expect(await footprint(relay, upstream)).toEqual(before);
  });
});

test('/readyz and /healthz show a stranger neither position nor instance', async () => {
  const read = async (place: string, authorization?: string): Promise<unknown> => {
    const reply = await fetch(`http://127.0.0.1:${relay.port}${place}`, {
      headers: authorization === undefined ? {} : { authorization },
    });
    return reply.json();
  };
  expect(await read('/healthz')).toEqual({ status: 'alive' });
  for (const authorization of [undefined, '', 'Bearer ', 'Bearer undefined', `Bearer ${READYZ_TOKEN}x`])
    expect(await read('/readyz', authorization)).toEqual({ status: 'ready' });
  expect(await read('/readyz', AS_OPERATOR.authorization)).toMatchObject({
    status: 'ready',
    instance: expect.any(Number) as number,
    read_model: { current: true },
  });
});

test('pipelined requests are answered in order, each with its own request id', async () => {
  const valid = rawRequest([key]);
  const invalid = rawRequest(['Authorization: Bearer x']);
  const models = rawRequest([key], start('GET', '/v1/models'));
  const last = rawRequest(['Authorization: Bearer x', 'Connection: close']);
  const bytes = await new Promise<Buffer>((resolve) => {
    const parts: Buffer[] = [];
    const socket = connect(relay.port, '127.0.0.1', () =>
      socket.write(Buffer.concat([valid, invalid, models, valid, last])),
    );
    socket.on('data', (part: Buffer) => parts.push(part));
    socket.on('close', () => resolve(Buffer.concat(parts)));
  });
  const replies = readReplies(bytes, ['POST', 'POST', 'GET', 'POST', 'POST']);
  expect(replies.map(({ status }) => status)).toEqual([200, 401, 200, 200, 401]);
  expect(new Set(replies.flatMap(requestIdsOf)).size).toBe(5);
});

test('noise behind a request whose reply is running puts nothing into that reply', async () => {
  const request = rawRequest([key], {
    body: '{"model":"s:tokens=50,every=10ms","messages":[],"stream":true,"user":"noisy"}',
  });
  const received = await new Promise<string>((resolve) => {
    let text = '';
    const socket = connect(relay.port, '127.0.0.1', () => socket.write(request));
    socket.on('data', (part: Buffer) => {
      if (!text.includes('tok3') && part.includes('tok3')) socket.write('\0noise\r\n\r\n');
      text += part.toString();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
  expect(received).toMatch(/^HTTP\/1\.1 200 OK/);
  expect(received.match(/HTTP\/1\.1/g)).toHaveLength(1);
  await upstream.ledger.until(() =>
    upstream.attemptsOf('noisy').every(({ ended }) => ended === 'client_closed'),
  );
});

describe('pages on other origins', () => {
  const ORIGIN = 'Origin: https://page.example';
  const asked = (list: string): string[] => [
    ORIGIN,
    'Access-Control-Request-Method: POST',
    `Access-Control-Request-Headers: ${list}`,
  ];
  const options = start('OPTIONS', CHAT);

  test('a preflight is answered without a key and allows what it asks for', async () => {
    const list =
      'authorization,content-type,x-stainless-arch,x-stainless-retry-count,x-stainless-timeout,x-custom';
    const reply = await untraced(rawRequest(asked(list), options), 'OPTIONS');
    expect([reply.status, reply.body.length, requestIdsOf(reply).length]).toEqual([204, 0, 1]);
    expect(reply.header('access-control-allow-headers')).toBe(list);
    expect(reply.header('access-control-allow-origin')).toBe('*');
    expect(reply.header('access-control-allow-methods')).toContain('POST');
    expect(reply.header('access-control-allow-credentials')).toBeNull();
  });

  test.each(['x'.repeat(3_000), 'authorization\x01', 'a;b', 'a: b'])(
    'a list of headers that is not valid is not echoed (%#)',
    async (list) => {
      const bytes = await exchange(relay.port, rawRequest(asked(list), options));
      const reply = onlyReply(bytes, 'OPTIONS');
      expect(reply.header('access-control-allow-headers')).not.toBe(list);
      expect([204, 400]).toContain(reply.status);
    },
  );

  test.each<[status: number, request: () => Buffer, method?: string]>([
    [200, () => rawRequest([key, ORIGIN])],
    [400, () => rawRequest([key, ORIGIN], { body: '{' })],
    [401, () => rawRequest([ORIGIN])],
    [404, () => rawRequest([key, ORIGIN], start('POST', '/v1/nothing'))],
    [405, () => rawRequest([key, ORIGIN], start('DELETE', CHAT))],
    [413, () => rawRequest([key, ORIGIN, 'Content-Length: 40000000'], { body: '' })],
    [415, () => rawRequest([key, ORIGIN, 'Content-Type: text/plain'])],
    [417, () => rawRequest([key, ORIGIN, 'Expect: a-miracle'])],
    [502, () => rawRequest([key, ORIGIN], { body: '{"model":"s:status=500","messages":[]}' })],
  ])('a reply with status %i can be read by them', async (status, request) => {
    const reply = onlyReply(await exchange(relay.port, request()));
    expect([reply.status, reply.header('access-control-allow-origin')]).toEqual([status, '*']);
    expect(reply.header('access-control-expose-headers')).toMatch(/x-request-id.*retry-after/);
  });
});
