import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  MalformedMessage,
  readMessage,
  readReply,
  requestFraming,
  statusOf,
} from '../../support/wire/http-message.ts';

type Read = { status: number | null; body: string; isComplete: boolean; after: string };

/** Reads a reply that arrives cut at these places. */
function read(bytes: Buffer, cuts: readonly number[] = [], method = 'POST'): Read {
  const seen: Read = { status: null, body: '', isComplete: false, after: '' };
  const reader = readReply(method, {
    head(head) {
      seen.status = statusOf(head);
    },
    body(piece) {
      seen.body += piece.toString('latin1');
    },
  });
  const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
  for (const [index, end] of places.slice(1).entries()) {
    seen.after += reader.push(bytes.subarray(places[index], end)).toString();
  }
  seen.isComplete = reader.complete;
  return seen;
}

const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
const REPLIES: Record<string, { text: string; body: string; after?: string; method?: string }> = {
  'Content-Length': { text: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', body: 'hello' },
  'nothing in the body': { text: 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n', body: '' },
  'what follows is left alone': {
    text: 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhello',
    body: 'he',
    after: 'llo',
  },
  chunks: { text: `${CHUNKED}3;x=y\r\nhel\r\n02\r\nlo\r\n0\r\nt: 1\r\n\r\n`, body: 'hello' },
  'an interim reply before': {
    text: `HTTP/1.1 103 Early\r\na: b\r\n\r\n${CHUNKED}1\r\nx\r\n0\r\n\r\n`,
    body: 'x',
  },
  'a reply to HEAD': { text: 'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n', body: '', method: 'HEAD' },
};

describe('a reply', () => {
  test.each(Object.entries(REPLIES))(
    'is read alike however it is cut: %s',
    (_, { text, body, after = '', method }) => {
      const bytes = Buffer.from(text);
      fc.assert(
        fc.property(fc.array(fc.nat(bytes.length)), (cuts) => {
          expect(read(bytes, cuts, method)).toEqual({ status: 200, body, isComplete: true, after });
        }),
      );
    },
  );

  test.each([
    'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n',
    'HTTP/1.1 200 OK\r\n\r\nhello',
  ])('is not whole before its end: %j', (text) => {
    expect(read(Buffer.from(text))).toMatchObject({ status: 200, body: 'hello', isComplete: false });
  });

  test('without any framing ends with the connection, one with framing does not', () => {
    for (const [framing, isWhole] of [
      ['', true],
      ['content-length: 5\r\n', false],
    ] as const) {
      const reader = readReply('GET', { head: () => undefined, body: () => undefined });
      reader.push(Buffer.from(`HTTP/1.1 200 OK\r\n${framing}\r\nhe`));
      reader.closed();
      expect(reader.complete).toBe(isWhole);
    }
  });
});

test.each([
  ['no start line', 'SSH-2.0-OpenSSH\r\n\r\n'],
  ['no header', 'HTTP/1.1 200 OK\r\nnonsense\r\n\r\n'],
  ['no number as length', 'HTTP/1.1 200 OK\r\ncontent-length: 5x\r\n\r\nhello'],
  ['no chunk size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhello\r\n'],
  ['a chunk longer than its size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhello\r\n'],
  ['a head without end', `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(200_000)}`],
  ['a chunk size without end', `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1'.repeat(20_000)}`],
])('%s is malformed', (_, text) => {
  expect(() => read(Buffer.from(text))).toThrow(MalformedMessage);
});

test('a request without framing has no body', () => {
  const reader = readMessage({ head: requestFraming, body: () => undefined });
  expect(reader.push(Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\nGET')).toString()).toBe('GET');
  expect(reader.complete).toBe(true);
});
