import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exchange } from '../support/exchange.ts';
import {
  type ErrorObject,
  expectRefusal,
  HELLO,
  onlyReply,
  rawRequest,
  requestIdsOf,
  type RawReply,
} from '../support/wire/raw-http.ts';
import { footprint, startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [{ baseUrl: upstream.baseUrl, models: ['ok', 's:*'] }] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type Sent = { body: string | Buffer; headers?: string[] };

async function post({ body, headers = [] }: Sent): Promise<RawReply> {
  return onlyReply(
    await exchange(relay.port, rawRequest([`Authorization: Bearer ${relay.key}`, ...headers], { body })),
  );
}

/** Sends everything that is to be refused; returns the error object. Nothing may be forwarded or recorded. */
async function refused(sent: Sent, status: number, code: string): Promise<ErrorObject> {
  const before = await footprint(relay, upstream);
  const error = expectRefusal(await post(sent), status, code);
  expect(await footprint(relay, upstream)).toEqual(before);
  return error;
}

/** Sends everything that is to be relayed, once. */
async function relayed(sent: Sent): Promise<void> {
  const before = upstream.ledger.attempts.length;
  const reply = await post(sent);
  expect([reply.status, reply.body.toString()]).toEqual([200, expect.stringContaining('chat.completion')]);
  expect(requestIdsOf(reply)).toHaveLength(1);
  expect(upstream.ledger.attempts).toHaveLength(before + 1);
}

const MESSAGES = '"messages":[]';

describe('a body that is not valid JSON is a 400 that leaves no trace', () => {
  test.each<[name: string, body: string | Buffer]>([
    ['a blank', ' '],
    ['an open brace', '{'],
    ['a closing brace', '}'],
    ['an object that ends early', HELLO.slice(0, -1)],
    ['text after the object', `${HELLO}x`],
    ['two objects', HELLO + HELLO],
    ['a comma before the closing brace', `{"model":"ok",${MESSAGES},}`],
    ['a comma at the beginning', `{,"model":"ok",${MESSAGES}}`],
    ['no comma between members', `{"model":"ok" ${MESSAGES}}`],
    ['no colon', `{"model" "ok",${MESSAGES}}`],
    ['a name without quotes', `{model:"ok",${MESSAGES}}`],
    ['single quotes', "{'model':'ok','messages':[]}"],
    ['a comment', `{"model":"ok",/* hi */${MESSAGES}}`],
    ['a form', 'model=ok&messages=[]'],
    ['HTML', '<html></html>'],
    ['a byte-order mark', `\ufeff${HELLO}`],
    ['UTF-16', Buffer.from(HELLO, 'utf16le')],
    ['a raw line end in a string', `{"model":"ok\n",${MESSAGES}}`],
    ['a raw NUL in a string', `{"model":"ok\0",${MESSAGES}}`],
    ['a NUL after the object', `${HELLO}\0`],
    ['an unknown escape', `{"model":"\\x6fk",${MESSAGES}}`],
    ['half an escape', `{"model":"ok","messages":["\\u00"]}`],
    ['a string that does not end', `{"model":"ok","messages":["hi]}`],
    ['a leading zero', `{"model":"ok",${MESSAGES},"n":01}`],
    ['a plus sign', `{"model":"ok",${MESSAGES},"n":+1}`],
    ['a number that ends in a point', `{"model":"ok",${MESSAGES},"n":1.}`],
    ['a number without digits', `{"model":"ok",${MESSAGES},"n":-}`],
    ['NaN', `{"model":"ok",${MESSAGES},"n":NaN}`],
    ['undefined', `{"model":"ok",${MESSAGES},"n":undefined}`],
    ['a hole in an array', '{"model":"ok","messages":[1,,2]}'],
    ["brackets that don't match", '{"model":"ok","messages":[}]'],
    [
      'a byte that is not UTF-8',
      Buffer.concat([Buffer.from('{"model":"ok","messages":["'), Buffer.from([0xff]), Buffer.from('"]}')]),
    ],
    [
      'a character that is cut in the middle',
      Buffer.concat([
        Buffer.from('{"model":"ok","messages":["'),
        Buffer.from('€').subarray(0, 2),
        Buffer.from('"]}'),
      ]),
    ],
    [
      'an overlong form of a character',
      Buffer.concat([
        Buffer.from('{"model":"ok","messages":["'),
        Buffer.from([0xc0, 0xaf]),
        Buffer.from('"]}'),
      ]),
    ],
    [
      'a surrogate in UTF-8',
      Buffer.concat([
        Buffer.from('{"model":"ok","messages":["'),
        Buffer.from([0xed, 0xa0, 0x80]),
        Buffer.from('"]}'),
      ]),
    ],
    ['gzip without saying so', gzipSync(HELLO)],
    ['an array', '[]'],
    ['a string', '"ok"'],
    ['a number', '1'],
    ['null', 'null'],
    ['true', 'true'],
  ])('%s', async (_name, body) => {
    const { message, type } = await refused({ body }, 400, 'invalid_json');
    expect(type).toBe('invalid_request_error');
    expect(message).toMatch(/JSON/);
  });

  test('no body at all', async () => {
    await refused({ body: '', headers: ['Content-Length: 0'] }, 400, 'invalid_json');
    await refused({ body: '' }, 400, 'invalid_json');
  });
});

describe('a field that is missing, of the wrong type or ambiguous is a 400 that names it', () => {
  const fields = (more: object): string => JSON.stringify({ model: 'ok', messages: [], ...more });
  test.each<[code: string, param: string, body: string]>([
    ['missing_required_parameter', 'model', '{}'],
    ['missing_required_parameter', 'model', `{${MESSAGES}}`],
    ['missing_required_parameter', 'model', `{"Model":"ok",${MESSAGES}}`],
    ['missing_required_parameter', 'messages', '{"model":"ok"}'],
    ['missing_required_parameter', 'messages', '{"model":"ok","input":[],"nested":{"messages":[]}}'],
    ...[1, null, '', [], {}, true].map(
      (model) => ['invalid_value', 'model', fields({ model })] as [string, string, string],
    ),
    ...[1, null, '', {}, true].map(
      (messages) => ['invalid_value', 'messages', fields({ messages })] as [string, string, string],
    ),
    ...['true', 1, 0, [], {}].map(
      (stream) => ['invalid_value', 'stream', fields({ stream })] as [string, string, string],
    ),
    ...['x', 1, [], true].map(
      (value) =>
        ['invalid_value', 'stream_options', fields({ stream: true, stream_options: value })] as [
          string,
          string,
          string,
        ],
    ),
    ...['yes', 1, {}].map(
      (value) =>
        [
          'invalid_value',
          'stream_options.include_usage',
          fields({ stream_options: { include_usage: value } }),
        ] as [string, string, string],
    ),
    ...['10', 1.5, -1, 1e30, true, []].flatMap((value) =>
      ['max_tokens', 'max_completion_tokens'].map(
        (name) => ['invalid_value', name, fields({ [name]: value })] as [string, string, string],
      ),
    ),
    ['duplicate_parameter', 'model', `{"model":"ok","model":"ok",${MESSAGES}}`],
    ['duplicate_parameter', 'model', `{"model":"s:","mod\\u0065l":"ok",${MESSAGES}}`],
    ['duplicate_parameter', 'messages', `{"model":"ok",${MESSAGES},${MESSAGES}}`],
    ['duplicate_parameter', 'stream', `{"model":"ok",${MESSAGES},"stream":true,"stream":false}`],
    [
      'duplicate_parameter',
      'stream_options',
      `{"model":"ok",${MESSAGES},"stream_options":{},"stream_options":null}`,
    ],
    ['duplicate_parameter', 'max_tokens', `{"model":"ok",${MESSAGES},"max_tokens":1,"max_tokens":9}`],
  ])('%s: %s (%#)', async (code, param, body) => {
    const error = await refused({ body }, 400, code);
    expect(error.param).toBe(param);
    expect(error.message).toContain(param);
  });

  test.each([
    fields({ stream: null, stream_options: null, max_tokens: null, max_completion_tokens: null }),
    fields({ stream: false, stream_options: {}, max_tokens: 0 }),
    fields({ stream_options: { include_usage: null } }),
    `\t\r\n {"model":"ok",${MESSAGES}} \n`,
  ])('null and blanks are no fault (%#)', (body) => relayed({ body }));
});

test.each(['nothing', 'OK', ' ok', 'ok ', 'ök', 'ok\u0000', 'o\nk', 'm'.repeat(257), 's', 'daybook-demo*'])(
  'a model that no upstream serves is a 404: %j',
  async (model) => {
    const { param } = await refused(
      { body: JSON.stringify({ model, messages: [] }) },
      404,
      'model_not_found',
    );
    expect(param).toBe('model');
  },
);

describe('nesting is bounded at 128, whatever the size of the body', () => {
  const nested = (depth: number): string =>
    `{"model":"ok","messages":[],"deep":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

  test('128 levels pass', () => relayed({ body: nested(128) }));

  test.each<[name: string, body: string]>([
    ['129 levels', nested(129)],
    ['129 levels in a message', `{"model":"ok","messages":${'['.repeat(128)}${']'.repeat(128)}}`],
    [
      '129 levels of objects',
      `{"model":"ok","messages":[],"deep":${'{"a":'.repeat(128)}1${'}'.repeat(128)}}`,
    ],
    ['10 MB of opening brackets', '['.repeat(10 * 1024 * 1024)],
    ['10 MB of opening braces with names', '{"a":'.repeat(2 * 1024 * 1024)],
    ['10 MB of matching brackets', nested(5 * 1024 * 1024)],
  ])('%s are refused', async (_name, body) => {
    await refused({ body }, 400, 'nested_too_deeply');
  });
});

describe('a body above 32 MiB is a 413, one of 32 MiB passes', () => {
  const MIB = 1024 * 1024;
  const sized = (bytes: number): string => {
    const frame = JSON.stringify({ model: 'ok', messages: [{ role: 'user', content: '' }] });
    return frame.replace('""', `"${'x'.repeat(bytes - frame.length)}"`);
  };
  const chunked = (body: string, chunkBytes: number): string => {
    const chunks = Array.from({ length: Math.ceil(body.length / chunkBytes) }, (_, at) =>
      body.slice(at * chunkBytes, (at + 1) * chunkBytes),
    );
    return `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`;
  };
  const CHUNKED = ['Transfer-Encoding: chunked'];

  test('exactly 32 MiB, by Content-Length', () => relayed({ body: sized(32 * MIB) }));

  test('exactly 32 MiB, in chunks', async () => {
    const request = rawRequest([`Authorization: Bearer ${relay.key}`, ...CHUNKED], { body: '' });
    expect(onlyReply(await exchange(relay.port, [request, chunked(sized(32 * MIB), MIB)])).status).toBe(200);
    expect(upstream.ledger.attempts.at(-1)?.bodyBytes).toBe(32 * MIB);
  });

  test('one byte more, by Content-Length', () =>
    refused({ body: sized(32 * MIB + 1) }, 413, 'request_too_large'));

  test('33 MiB by Content-Length are refused before any of them is sent', async () => {
    const { message } = await refused(
      { body: '', headers: [`Content-Length: ${33 * MIB}`] },
      413,
      'request_too_large',
    );
    expect(message).toContain('32 MiB');
  });

  test('33 MiB in chunks', async () => {
    const before = await footprint(relay, upstream);
    const request = rawRequest([`Authorization: Bearer ${relay.key}`, ...CHUNKED], { body: '' });
    expectRefusal(
      onlyReply(await exchange(relay.port, [request, chunked(sized(33 * MIB), MIB)])),
      413,
      'request_too_large',
    );
    expect(await footprint(relay, upstream)).toEqual(before);
  });

  test('an upload with an invalid key is refused before it is sent', async () => {
    const before = await footprint(relay, upstream);
    const head = rawRequest(['Authorization: Bearer x', `Content-Length: ${5 * MIB}`], { body: '' });
    expectRefusal(onlyReply(await exchange(relay.port, head)), 401, 'invalid_api_key');
    expect(await footprint(relay, upstream)).toEqual(before);
  });
});

describe('only plain JSON is taken', () => {
  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'text/json',
    'json',
    'application/json,text/plain',
  ])('Content-Type %s is a 415', async (type) => {
    await refused({ body: HELLO, headers: [`Content-Type: ${type}`] }, 415, 'unsupported_media_type');
  });
  test.each(['gzip', 'br', 'deflate', 'zstd', 'gzip, identity', 'x'])(
    'Content-Encoding %s is a 415',
    async (encoding) => {
      await refused(
        { body: gzipSync(HELLO), headers: [`Content-Encoding: ${encoding}`] },
        415,
        'unsupported_encoding',
      );
    },
  );
  test.each([
    'Content-Type: application/json; charset=utf-8',
    'Content-Type: APPLICATION/JSON',
    'Content-Type: application/vnd.api+json',
    'Content-Encoding: identity',
  ])('%s passes', (line) => relayed({ body: HELLO, headers: [line] }));

  test('no Content-Type at all is taken for JSON', async () => {
    const lines = [
      'POST /v1/chat/completions HTTP/1.1',
      'Host: x',
      `Authorization: Bearer ${relay.key}`,
      `Content-Length: ${HELLO.length}`,
    ];
    expect(onlyReply(await exchange(relay.port, `${lines.join('\r\n')}\r\n\r\n${HELLO}`)).status).toBe(200);
  });
});
