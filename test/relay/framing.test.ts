import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PIPELINED_MAX } from '#server/http/bounds.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import {
  CHAT,
  expectRefusal,
  HELLO,
  onlyReply,
  rawRequest,
  readReplies,
  type RawReply,
} from '../support/wire/raw-http.ts';

/** Where a request ends, what follows it on its connection, and who may say so. */

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

/** Sends bytes in one packet, and returns all bytes until the server closes the connection. */
function sendUntilClosed(bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve) => {
    const received: Buffer[] = [];
    const socket = connect(relay.port, '127.0.0.1', () => socket.write(bytes));
    socket.on('data', (part: Buffer) => received.push(part));
    socket.on('error', () => {});
    socket.on('close', () => resolve(Buffer.concat(received)));
  });
}

const CHUNKED = `${HELLO.length.toString(16)}\r\n${HELLO}\r\n0\r\n\r\n`;
const LENGTH = `Content-Length: ${HELLO.length}`;
const TE = 'Transfer-Encoding: chunked';
const HTTP_1_0 = `POST ${CHAT} HTTP/1.0`;
const chunkedWith = (from: string, to: string): string => CHUNKED.replace(from, to);

describe('a request that two servers may frame differently is a 400, and is not relayed', () => {
  test.each<[name: string, lines: string[], body: string, start?: string]>([
    ['Content-Length, then Transfer-Encoding', ['Content-Length: 5', TE], CHUNKED],
    ['Transfer-Encoding, then Content-Length', [TE, 'Content-Length: 5'], CHUNKED],
    ['the same Content-Length twice', [LENGTH, LENGTH], HELLO],
    ['different Content-Lengths', [LENGTH, 'Content-Length: 5'], HELLO],
    ['a list in Content-Length', [`${LENGTH}, ${HELLO.length}`], HELLO],
    ['a hexadecimal Content-Length', ['Content-Length: 0x3a'], HELLO],
    ['an empty Content-Length', ['Content-Length:'], HELLO],
    ['a space before the colon of Content-Length', [`Content-Length : ${HELLO.length}`], HELLO],
    ['a space before the colon of Transfer-Encoding', ['Transfer-Encoding : chunked'], CHUNKED],
    ['a tab before the colon of another header', ['x-note\t: a', LENGTH], HELLO],
    ['a folded Content-Length', [`Content-Length:\r\n ${HELLO.length}`], HELLO],
    ['a folded Transfer-Encoding', ['Transfer-Encoding:\r\n chunked'], CHUNKED],
    ['a header line that ends in a bare LF', [`x-note: a\n${TE}`], CHUNKED],
    ['a header line that ends in a bare CR', [`x-note: a\r${TE}`], CHUNKED],
    ['an unknown coding', ['Transfer-Encoding: xchunked'], CHUNKED],
    ['identity', ['Transfer-Encoding: identity', LENGTH], HELLO],
    ['chunked that is not last', ['Transfer-Encoding: chunked, identity'], CHUNKED],
    ['a coding below chunked', ['Transfer-Encoding: gzip, chunked'], CHUNKED],
    ['chunked twice', [TE, TE], CHUNKED],
    ['a quoted coding', ['Transfer-Encoding: "chunked"'], CHUNKED],
    ['a vertical tab before the coding', ['Transfer-Encoding: \x0bchunked'], CHUNKED],
    ['Transfer-Encoding in HTTP/1.0', [TE], CHUNKED, HTTP_1_0],
    ['a chunk size that ends in a bare LF', [TE], chunkedWith('\r\n', '\n')],
    ['a chunk that ends in a bare LF', [TE], chunkedWith('}\r\n', '}\n')],
    ['a chunk extension with a bare LF', [TE], chunkedWith('\r\n', ';\n\r\n')],
    ['a chunk extension with a bare CR', [TE], chunkedWith('\r\n', ';a\rb\r\n')],
    ['chunk extensions of 20 KB', [TE], chunkedWith('\r\n', `;${'a'.repeat(20_000)}\r\n`)],
    ['a space behind the chunk size', [TE], chunkedWith('\r\n', ' \r\n')],
    ['a chunk size beyond 64 bits', [TE], `1${'0'.repeat(16)}${CHUNKED}`],
    ['a trailer with a space before its colon', [TE], chunkedWith('0\r\n\r\n', '0\r\na : b\r\n\r\n')],
    ['two Host headers', ['Host: a', 'Host: b'], HELLO],
    ['an invalid Host', ['Host: a b@c/', LENGTH], HELLO],
  ])('%s', async (_name, lines, body, start) => {
    const before = upstream.ledger.attempts.length;
    const request = rawRequest([key, ...lines], { body: '', ...(start === undefined ? {} : { start }) });
    const received = await sendUntilClosed(Buffer.concat([request, Buffer.from(body), rawRequest([key])]));
    const reply = onlyReply(received);
    expectRefusal(reply, 400, 'bad_request');
    expect(reply.header('connection')).toBe('close');
    expect(received.toString().match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
    expect(upstream.ledger.attempts).toHaveLength(before);
  });

  test('valid chunk extensions and trailers are ignored, as HTTP requires', async () => {
    const body = chunkedWith('\r\n', ';a="b;c"\r\n').replace('0\r\n\r\n', '0\r\nAuthorization: x\r\n\r\n');
    const request = rawRequest([key, TE, 'Connection: close'], { body: '' });
    const { status } = onlyReply(await sendUntilClosed(Buffer.concat([request, Buffer.from(body)])));
    expect(status).toBe(200);
  });
});

describe('what follows a request on its connection', () => {
  const slow = '{"model":"s:head=300ms","messages":[]}';
  const statuses = (replies: readonly RawReply[]): number[] => replies.map(({ status }) => status);

  test('pipelined requests are served up to a bound; the next one is a 400 that closes', async () => {
    const before = upstream.ledger.attempts.length;
    const flood = Buffer.concat(Array.from({ length: 500 }, () => rawRequest([key], { body: slow })));
    const replies = readReplies(await sendUntilClosed(flood), Array<string>(PIPELINED_MAX + 1).fill('POST'));
    expect(statuses(replies)).toEqual([...Array<number>(PIPELINED_MAX).fill(200), 400]);
    expect(replies.at(-1)?.header('connection')).toBe('close');
    expect(upstream.ledger.attempts).toHaveLength(before + PIPELINED_MAX);
  });

  test.each([
    ['Connection: close', ['Connection: close'], undefined],
    ['HTTP/1.0', [], HTTP_1_0],
  ])('behind %s it is ignored, and the reply is whole', async (_name, lines, start) => {
    const before = upstream.ledger.attempts.length;
    const first = rawRequest([key, ...lines], { body: slow, ...(start === undefined ? {} : { start }) });
    const received = await sendUntilClosed(Buffer.concat([first, rawRequest([key])]));
    expect(onlyReply(received).status).toBe(200);
    expect(received.toString().match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
    expect(upstream.ledger.attempts).toHaveLength(before + 1);
  });

  test('CONNECT is a 405 that closes, behind the replies before it', async () => {
    const tunnel = rawRequest([key], { start: 'CONNECT a.example:443 HTTP/1.1', body: '' });
    const received = await sendUntilClosed(Buffer.concat([rawRequest([key]), tunnel, rawRequest([key])]));
    const replies = readReplies(received, ['POST', 'POST']);
    expect(statuses(replies)).toEqual([200, 405]);
    expectRefusal(replies[1] as RawReply, 405, 'method_not_allowed');
    expect(received.toString().match(/HTTP\/1\.1 \d/g)).toHaveLength(2);
  });

  test('a WebSocket behind a running reply is not opened', async () => {
    const opening = rawRequest(
      [
        key,
        'Connection: Upgrade, close',
        'Upgrade: websocket',
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      ],
      { start: 'GET /v1/live HTTP/1.1', body: '' },
    );
    const received = await sendUntilClosed(Buffer.concat([rawRequest([key], { body: slow }), opening]));
    expect(statuses(readReplies(received, ['POST', 'GET']))).toEqual([200, 426]);
  });

  test('calls end in the log also when the client of many leaves', async () => {
    const before = upstream.ledger.attempts.length;
    const user = 'leaving-pipeline';
    const body = JSON.stringify({ model: 's:head=30s', messages: [], user });
    const socket = connect(relay.port, '127.0.0.1', () =>
      socket.write(Buffer.concat(Array.from({ length: 50 }, () => rawRequest([key], { body })))),
    );
    socket.on('error', () => {});
    await upstream.ledger.until(() => upstream.ledger.attempts.length === before + PIPELINED_MAX);
    socket.destroy();
    await until(
      () => upstream.attemptsOf(user).filter(({ ended }) => ended === 'client_closed').length,
      (ended) => ended === PIPELINED_MAX,
      'the upstream calls of a client that left',
    );
  });

  test.each([
    ['nothing', ''],
    ['CONNECT', 'CONNECT a.example:443 HTTP/1.1'],
  ])('calls end at once whose client leaves before their replies, with %s behind them', async (_, start) => {
    const behind = `behind-${start}`;
    const body = (user: string, model: string) => JSON.stringify({ model, messages: [], user });
    const bytes = [
      rawRequest([key], { body: body('before', 's:head=30s') }),
      rawRequest([key], { body: body(behind, 'ok') }),
      ...(start === '' ? [] : [rawRequest([key], { start, body: '' })]),
    ];
    const socket = connect(relay.port, '127.0.0.1', () => socket.write(Buffer.concat(bytes)));
    socket.on('error', () => {});
    await upstream.ledger.until(() => upstream.attemptsOf(behind).some(({ endedAt }) => endedAt !== null));
    socket.destroy();
    await relay.waitFor((events) => openRequests(events).length === 0);
  });
});
