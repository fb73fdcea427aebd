import type { Random } from '../chaos/random.ts';
import { CHAT, rawRequest } from '../support/wire/raw-http.ts';
import { converse, type Conversation } from './hostile-client.ts';
import { chance, divided, jsonText, mutated, pick } from './pieces.ts';
import {
  countReplies,
  measured,
  type Target,
  type TargetReport,
  VIOLATIONS_MAX,
  withOwnTarget,
} from './target.ts';

/**
 * Random and hostile HTTP over raw sockets: the process survives, nothing is a fault of the relay, a request
 * with ambiguous framing never reaches an upstream, each recorded call ends, and nothing is left behind.
 */

export type HttpReport = TargetReport & { connections: number; ambiguous: number };

const AT_ONCE = 48;
/** Longer than the timeout of headers and its check. */
const SLOW_MS = 14_000;
const AMBIGUOUS = 'ambiguous';

/** `npm run fuzz -- http`. */
export const run = (random: Random, { ms }: { ms: number }): Promise<HttpReport> =>
  withOwnTarget((target) => fuzzHttp(target, random, ms));

/** @param slowMs how long slow clients stay; 0: no slow clients. */
export async function fuzzHttp(
  target: Target,
  random: Random,
  ms: number,
  slowMs = SLOW_MS,
): Promise<HttpReport> {
  let connections = 0;
  const endMs = performance.now() + ms;
  const report = await measured(target, async (running) => {
    const client = async (): Promise<void> => {
      while (performance.now() < endMs && running.violations.length < VIOLATIONS_MAX) {
        connections++;
        const { received } = await converse(target.port, conversation(random, target.key, slowMs));
        countReplies(received, running);
        if (received !== '' && !received.startsWith('HTTP/1.1 '))
          running.violations.push(`no reply of HTTP: ${received.slice(0, 200)}`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, client));
  });
  const ambiguous = target.upstream.attemptsOf(AMBIGUOUS).length;
  if (ambiguous > 0) report.violations.push(`${ambiguous} requests with ambiguous framing were relayed`);
  return { ...report, connections, ambiguous };
}

const END = ['wait', 'half-close', 'leave', 'reset'] as const;

function conversation(random: Random, secret: string, slowMs: number): Conversation {
  const key = `Authorization: Bearer ${secret}`;
  const end = pick(random, END);
  const patienceMs = pick(random, [1, 50, 300, 2_000]);
  const send = (bytes: Buffer, more: Partial<Conversation> = {}): Conversation => ({
    steps: divided(random, bytes),
    end,
    patienceMs,
    ...more,
  });
  switch (random.below(slowMs > 0 ? 14 : 13)) {
    case 0:
      return send(call(random, key));
    case 1:
    case 2:
      return send(smuggled(random, key), { patienceMs: 2_000 });
    case 3:
      return send(brokenChunks(random, key));
    case 4: {
      const count = pick(random, [2, 5, 17, 100, 500]);
      return send(Buffer.concat(Array.from({ length: count }, () => anyRequest(random, key))));
    }
    case 5: {
      const whole = call(random, key);
      return send(whole.subarray(0, random.below(whole.length)));
    }
    case 6:
      // A stream whose client leaves.
      return send(call(random, key, 's:tokens=200,every=5ms'), { end: pick(random, ['leave', 'reset']) });
    case 7:
      return send(upgrade(random, key));
    case 8: {
      const expect = `Expect: ${pick(random, ['100-continue', '100-Continue', 'a', '', '100-continue, a'])}`;
      const length = `Content-Length: ${pick(random, ['0', '10', '60', '99999999', '99999999999'])}`;
      return send(rawRequest([key, expect, length], { body: '' }), { patienceMs: 300 });
    }
    case 9:
      return send(mutated(random, anyRequest(random, key), 1));
    case 10: {
      const size = pick(random, [100_000, 1_000_000, 4_000_000]);
      const lines = [chance(random, 2) ? key : 'Authorization: Bearer x'];
      return send(rawRequest(lines, { body: Buffer.alloc(size, pick(random, ['x', '{', '[', '"'])) }));
    }
    case 11:
      return send(call(random, key, 's:tokens=3000'), { isDeaf: true, end: 'reset' });
    case 12:
      return send(Buffer.from(Array.from({ length: random.below(2_000) }, () => random.below(256))));
    default:
      return slow(random, key, slowMs);
  }
}

/** Sends its headers or its body a byte at a time, or nothing. */
function slow(random: Random, key: string, slowMs: number): Conversation {
  const whole = call(random, key);
  const at = random.below(whole.length);
  const count = random.below(60);
  const drip = Array.from({ length: count }, (_, index) => [200, whole.subarray(at + index, at + index + 1)]);
  return { steps: [whole.subarray(0, at), ...drip.flat()], end: 'wait', patienceMs: slowMs - count * 200 };
}

const MODELS = [
  'ok',
  's:tokens=20,every=1ms',
  's:head=200ms',
  's:status=500',
  's:status=429',
  's:end=cut@3',
  's:end=cut@head',
  'none',
];

function call(random: Random, key: string, model = pick(random, MODELS)): Buffer {
  const members = { model, messages: [], ...(chance(random, 2) ? { stream: true } : {}) };
  const body = chance(random, 8) ? jsonText(random) : JSON.stringify(members);
  const version = chance(random, 6) ? '1.0' : '1.1';
  const more = chance(random, 5)
    ? [`Connection: ${pick(random, ['close', 'keep-alive', 'x', 'upgrade'])}`]
    : [];
  return rawRequest([key, ...more], { start: `POST ${CHAT} HTTP/${version}`, body });
}

const METHODS = [
  'GET',
  'POST',
  'HEAD',
  'OPTIONS',
  'PUT',
  'DELETE',
  'CONNECT',
  'TRACE',
  'QUERY',
  'PRI',
  'get',
];
const PATHS = [
  CHAT,
  '/v1/models',
  '/v1/usage',
  '/v1/usage?from=2020-01-01&to=x',
  '/v1/requests?limit=1',
  '/v1/requests/0',
  '/v1/live',
  '/api/v1/live',
  '/api/v1/session',
  '/api/v1/keys',
  '/log/checkpoint',
  '/log/tile/0/000',
  '/healthz',
  '/readyz',
  '/',
  '*',
  'http://a.example/v1/models',
  '//a.example',
  '/%00',
  '/%zz',
  '/..%2f..%2fetc/passwd',
  '/assets/../../x',
];

function anyRequest(random: Random, key: string): Buffer {
  if (chance(random, 3)) return call(random, key);
  const query = chance(random, 5) ? `?${'a=b&'.repeat(random.below(500))}` : '';
  const version = pick(random, ['1.1', '1.1', '1.0', '2.0', '0.9']);
  const start = `${pick(random, METHODS)} ${pick(random, PATHS)}${query} HTTP/${version}`;
  const lines = Array.from({ length: random.below(5) }, () => header(random));
  return rawRequest(chance(random, 4) ? lines : [key, ...lines], {
    start,
    body: chance(random, 3) ? jsonText(random) : '',
  });
}

const NAMES = [
  'host',
  'cookie',
  'origin',
  'range',
  'x-forwarded-for',
  'traceparent',
  'x-request-id',
  'te',
  'accept',
];

function header(random: Random): string {
  const value = pick(random, [
    '',
    'a',
    '1',
    '\u00ff\u0080',
    'a\tb',
    'bytes=0-',
    'https://a.example',
    '0'.repeat(3_000),
  ]);
  return `${pick(random, NAMES)}${pick(random, [': ', ':', ':  '])}${value}`;
}

const LENGTHS = ['Content-Length: 5', 'Content-Length: 0', 'content-length: 5'];
const CODINGS = [
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding: chunked, identity',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: "chunked"',
  'Transfer-Encoding: \x0bchunked',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding:\r\n chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
  'Content-Length : 5',
  'Content-Length: +5',
  'Content-Length: 5, 5',
  'Content-Length: 5\r\nContent-Length: 6',
  'X: a\nTransfer-Encoding: chunked',
];

/** Framing that two servers may read differently, with a request behind it that only one of them sees. */
function smuggled(random: Random, key: string): Buffer {
  const body = JSON.stringify({ model: 'ok', messages: [], user: AMBIGUOUS });
  const hidden = rawRequest([key], { body });
  const inner = chance(random, 2) ? body : '';
  const chunks = `${inner === '' ? '' : `${inner.length.toString(16)}\r\n${inner}\r\n`}0\r\n\r\n`;
  const lines = chance(random, 2)
    ? [pick(random, LENGTHS), 'Transfer-Encoding: chunked']
    : [pick(random, CODINGS)];
  if (chance(random, 2)) lines.reverse();
  const framed = rawRequest([key, ...lines], { body: '' });
  return Buffer.concat([framed, Buffer.from(chunks), hidden]);
}

/** A chunked body whose sizes, ends, extensions or trailers are wrong, or only odd. */
function brokenChunks(random: Random, key: string): Buffer {
  const parts = Array.from({ length: 1 + random.below(6) }, () => {
    const data = 'x'.repeat(random.below(50));
    const size = chance(random, 3)
      ? pick(random, ['-1', 'zz', '0x5', 'ffffffffffffffff', '', '5 ', '00005'])
      : data.length.toString(16);
    const extension = chance(random, 3)
      ? pick(random, [';a=b', ';a="b', ';\n', `;${'a'.repeat(5_000)}`, ';'])
      : '';
    const end = pick(random, ['\r\n', '\r\n', '']);
    return `${size}${extension}${pick(random, ['\r\n', '\r\n', '\n'])}${data}${end}`;
  });
  const trailer = pick(random, [
    '',
    'a: b\r\n',
    'Authorization: Bearer x\r\n',
    'Content-Length: 5\r\n',
    'no colon\r\n',
  ]);
  const body = `${parts.join('')}0\r\n${trailer}\r\n`;
  return Buffer.concat([rawRequest([key, 'Transfer-Encoding: chunked'], { body: '' }), Buffer.from(body)]);
}

/** Attempts to leave HTTP/1.1, alone or behind and before other requests. */
function upgrade(random: Random, key: string): Buffer {
  const to = pick(random, ['websocket', 'h2c', 'WebSocket', 'tls/1.0', '']);
  const lines = [
    key,
    `Upgrade: ${to}`,
    `Connection: ${pick(random, ['Upgrade', 'keep-alive, Upgrade', 'close', 'upgrade, HTTP2-Settings'])}`,
    ...(chance(random, 2)
      ? ['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==']
      : []),
  ];
  const start = `${pick(random, ['GET', 'GET', 'POST', 'CONNECT'])} ${pick(random, PATHS)} HTTP/1.1`;
  const request = rawRequest(lines, { start, body: '' });
  const others = Array.from({ length: random.below(4) }, () => anyRequest(random, key));
  return Buffer.concat(chance(random, 2) ? [...others, request] : [request, ...others]);
}
