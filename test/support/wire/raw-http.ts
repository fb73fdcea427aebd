import { expect } from 'vitest';
import { headerOf, readReply, statusOf } from './http-message.ts';

/** A reply as it stood on the wire, taken apart. */
export type RawReply = {
  status: number;
  headers: [name: string, value: string][];
  body: Buffer;
  /** The first value of a header, whatever the case of its name. */
  header(name: string): string | null;
};

export const CHAT = '/v1/chat/completions';
export const HELLO = '{"model":"ok","messages":[{"role":"user","content":"hi"}]}';

/**
 * A request byte by byte. Header lines go out as they are given, in latin1, so that a line can hold
 * any byte; Host, Content-Type and Content-Length are added where no line names them.
 */
export function rawRequest(
  lines: readonly string[],
  more: { start?: string; body?: string | Buffer } = {},
): Buffer {
  const { start = `POST ${CHAT} HTTP/1.1`, body = HELLO } = more;
  const bytes = Buffer.from(body);
  const usual = [
    ['host', '127.0.0.1'],
    ['content-type', 'application/json'],
    ...(bytes.length > 0 ? [['content-length', String(bytes.length)]] : []),
  ] as const;
  const named = new Set(lines.map((line) => line.split(':', 1)[0]?.trim().toLowerCase()));
  const added = usual.filter(([name]) => !named.has(name)).map(([name, value]) => `${name}: ${value}`);
  return Buffer.concat([Buffer.from(`${[start, ...added, ...lines].join('\r\n')}\r\n\r\n`, 'latin1'), bytes]);
}

/**
 * The final replies in these bytes, one for each of the requests' methods. @throws {Error} when one is
 * missing or cut.
 */
export function readReplies(bytes: Buffer, methods: readonly string[] = ['POST']): RawReply[] {
  let rest = bytes;
  return methods.map((method) => {
    const reply = { status: 0, headers: [] as [string, string][], body: [] as Buffer[] };
    const reader = readReply(method, {
      head(head) {
        reply.status = statusOf(head);
        reply.headers = head.headers;
      },
      body: (piece) => reply.body.push(piece),
    });
    rest = reader.push(rest);
    if (!reader.complete)
      throw new Error(`no whole reply in ${JSON.stringify(bytes.toString('latin1', 0, 300))}`);
    const { status, headers } = reply;
    return {
      status,
      headers,
      body: Buffer.concat(reply.body),
      header: (name) => headerOf({ headers }, name),
    };
  });
}

/** The one final reply in these bytes. */
export function onlyReply(bytes: Buffer, method = 'POST'): RawReply {
  return readReplies(bytes, [method])[0] as RawReply;
}

/** An error object, as every client of the OpenAI API reads it. */
export type ErrorObject = { message: string; type: string; param: string | null; code: string };

/**
 * Asserts that a reply is a refusal of the catalogue: its status and code, a JSON error object, and
 * exactly one x-request-id, which the body repeats.
 */
export function expectRefusal(
  reply: Pick<RawReply, 'status' | 'headers' | 'body'>,
  status: number,
  code: string,
): ErrorObject {
  const { error, request_id: requestId } = JSON.parse(reply.body.toString()) as {
    error: ErrorObject;
    request_id: string;
  };
  expect([reply.status, error.code]).toEqual([status, code]);
  expect(Object.keys(error).toSorted()).toEqual(['code', 'message', 'param', 'type']);
  expect(error.message).not.toBe('');
  expect(error.type).toMatch(/_error$/);
  expect(headerOf(reply, 'content-type')).toBe('application/json; charset=utf-8');
  expect(requestIdsOf(reply)).toEqual([requestId]);
  return error;
}

/** Every x-request-id of a reply; there is to be one, and it is a UUID of version 7. */
export function requestIdsOf({ headers }: Pick<RawReply, 'headers'>): string[] {
  const ids = headers.filter(([name]) => name.toLowerCase() === 'x-request-id').map(([, value]) => value);
  for (const id of ids)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  return ids;
}
