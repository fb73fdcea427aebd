import { createHash, randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chat, type ChatReply } from '../support/client.ts';
import { errorCodeOf, openRequests } from '../support/faults.ts';
import { type HastyUpstream, startHastyUpstream } from '../support/upstream/early-reply-upstream.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { exchange } from '../support/exchange.ts';
import { onlyReply, rawRequest } from '../support/wire/raw-http.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import type { Attempt } from '../support/upstream/ledger.ts';

const CREDENTIAL = 'sk-upstream-credential';
const KIB = 1024;

let upstream: ScriptedUpstream;
let hasty: HastyUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: CREDENTIAL });
  hasty = await startHastyUpstream();
  relay = await startRelay({
    upstreams: [
      { baseUrl: upstream.baseUrl, name: 'scripted', apiKey: CREDENTIAL, models: ['s:*', 'ok'] },
      { baseUrl: hasty.baseUrl, name: 'hasty', models: ['hasty'] },
    ],
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
  await hasty?.[Symbol.asyncDispose]();
});

const sha256 = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex');

/** Sends a body as it is; returns the row of the attempt that it became. */
async function sent(body: string | Buffer, more: { chunked?: boolean } = {}): Promise<Attempt> {
  const before = upstream.ledger.attempts.length;
  const bytes = Buffer.from(body);
  const lines = [
    `Authorization: Bearer ${relay.key}`,
    ...(more.chunked === true ? ['Transfer-Encoding: chunked'] : [`Content-Length: ${bytes.length}`]),
  ];
  const framed =
    more.chunked === true
      ? Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n0\r\n\r\n')])
      : bytes;
  const reply = onlyReply(
    await exchange(relay.port, Buffer.concat([rawRequest(lines, { body: '' }), framed])),
  );
  expect([reply.status, reply.body.toString('utf8', 0, 200)]).toEqual([200, expect.any(String)]);
  expect(upstream.ledger.attempts).toHaveLength(before + 1);
  return upstream.ledger.attempts[before] as Attempt;
}

/** The text of any JSON value, written in ways that a parser and a serialiser would not keep. */
const oddValue: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '12345678901234567890',
    '-0',
    '1e400',
    '1.10',
    '1E+2',
    '0.1e-7',
    '"\\u0041\\/\\ud83d\\ude00"',
    '"\\ud800"',
    '"\u2028€😀"',
    '{"b":1,"a":2,"10":3,"2":4}',
    '{"x":1,"x":2}',
    '[ ]',
    '{ }',
    '[[[]]]',
    'null',
  ),
  fc.json({ maxDepth: 4 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }).map((text) => JSON.stringify(text)),
);
const blank = fc.constantFrom('', '', ' ', '\n', '\t', '\r\n  ');
const oddMember = fc.tuple(
  fc.string({ maxLength: 12 }).map((name) => JSON.stringify(`x_${name}`)),
  oddValue,
);

/** A body with odd members around those that matter, in any order; `last` reports what ends it. */
const oddBody = (members: [string, string][]): fc.Arbitrary<{ start: string; end: string }> =>
  fc
    .tuple(fc.array(oddMember, { maxLength: 6 }), blank, blank, fc.infiniteStream(fc.nat()))
    .map(([odd, before, after, order]) => {
      const shuffled = [...members, ...odd]
        .map((member) => [order.next().value, member] as const)
        .toSorted((left, right) => left[0] - right[0]);
      const text = shuffled
        .map(([, [name, value]]) => `${before}${name}${after}:${before}${value}`)
        .join(`${after},`);
      return { start: `${before}{${text}${before}`, end: `}${after}` };
    });

const MODEL: [string, string] = ['"model"', '"ok"'];
const MESSAGES: [string, string] = [
  '"messages"',
  '[{"role":"user","content":[{"type":"text","text":"h\\u0069"}]}]',
];
const ASK = '"stream_options":{"include_usage":true}';

describe("a request's bytes reach the upstream as they came", () => {
  test('when JSON is asked for, or a stream with its usage', () =>
    fc.assert(
      fc.asyncProperty(
        fc
          .constantFrom<[string, string][]>(
            [],
            [['"stream"', 'false']],
            [['"stream"', 'null']],
            [
              ['"stream"', 'true'],
              ['"stream_options"', '{ "include_usage" : true, "n": 1e3 }'],
            ],
          )
          .chain((more) => oddBody([MODEL, MESSAGES, ...more])),
        fc.boolean(),
        async ({ start, end }, chunked) => {
          const { attempt } = await sent(start + end, { chunked });
          expect(upstream.ledger.requestBody(attempt).toString()).toBe(start + end);
        },
      ),
      { numRuns: 60 },
    ));

  test('with only the question for usage put in, when a stream does not ask for it', () =>
    fc.assert(
      fc.asyncProperty(oddBody([MODEL, MESSAGES, ['"stream"', 'true']]), async ({ start, end }) => {
        const { attempt } = await sent(start + end);
        expect(upstream.ledger.requestBody(attempt).toString()).toBe(`${start},${ASK}${end}`);
      }),
      { numRuns: 60 },
    ));

  test.each([
    ['null', '{"include_usage":true}'],
    ['{}', '{"include_usage":true}'],
    ['{"include_usage":false}', '{"include_usage":true}'],
    [
      '{ "include_obfuscation": false, "include_usage": null }',
      '{"include_obfuscation":false,"include_usage":true}',
    ],
  ])("with the client's other stream options kept: %s", async (options, asked) => {
    const body = (value: string): string =>
      `{"a":[1, 2],"stream_options" : ${value} ,"stream":true,"model":"ok","messages":[],"z":-0}`;
    const { attempt } = await sent(body(options));
    expect(upstream.ledger.requestBody(attempt).toString()).toBe(body(asked));
  });

  const sized = (bytes: number, more: string): string => {
    const frame = `{"model":"ok",${more}"messages":["${randomUUID()}"],"pad":""}`;
    return frame.replace('""}', `"${'p'.repeat(bytes - frame.length)}"}`);
  };
  const SIZES = [
    64 * KIB - 1,
    64 * KIB,
    64 * KIB + 1,
    400_000,
    1024 * KIB - 60,
    1024 * KIB - 47,
    1024 * KIB - 46,
    1024 * KIB - 1,
    1024 * KIB,
    1024 * KIB + 1,
    3_000_000,
  ];

  test.each(SIZES)('whatever their size: %i bytes', async (bytes) => {
    for (const chunked of [false, true]) {
      const plain = sized(bytes, '');
      expect((await sent(plain, { chunked })).bodySha256).toBe(sha256(plain));
      const streamed = sized(bytes, '"stream":true,');
      expect((await sent(`${streamed}\n \t`, { chunked })).bodySha256).toSatisfy((digest: string) =>
        // Blanks after the closing brace carry nothing, so they may be omitted.
        [`${streamed.slice(0, -1)},${ASK}}`, `${streamed.slice(0, -1)},${ASK}}\n \t`]
          .map(sha256)
          .includes(digest),
      );
    }
  });
});

const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

test("the upstream sees our own headers and credential, and of the client's its trace alone", async () => {
  const user = randomUUID();
  const headers = {
    cookie: 'session=1',
    origin: 'https://page.example',
    'user-agent': 'curious/1',
    'accept-encoding': 'gzip, br, zstd',
    'x-forwarded-for': '10.0.0.1',
    'x-api-key': 'k',
    'openai-organization': 'org-client',
    'x-stainless-retry-count': '2',
    'x-request-id': 'mine',
    traceparent: TRACE,
    tracestate: 'vendor=1',
    te: 'trailers',
    connection: 'keep-alive, x-hop',
    'x-hop': '1',
  };
  await chat({ port: relay.port, key: relay.key, body: { model: 'ok', messages: [], user }, headers });
  await chat({
    port: relay.port,
    key: relay.key,
    body: { model: 'ok', messages: [], user: `${user}-sse`, stream: true },
    headers,
  });
  for (const [name, accept] of [
    [user, 'application/json'],
    [`${user}-sse`, 'text/event-stream'],
  ] as const) {
    const [row] = upstream.attemptsOf(name);
    const { 'content-length': length, ...seen } = Object.fromEntries(
      row?.headers.map(([header, value]) => [header.toLowerCase(), value]) ?? [],
    );
    expect(seen).toEqual({
      host: `127.0.0.1:${upstream.port}`,
      connection: 'keep-alive',
      'content-type': 'application/json',
      accept,
      'accept-encoding': 'identity',
      'user-agent': 'daybook',
      authorization: `Bearer ${CREDENTIAL}`,
      traceparent: TRACE,
      tracestate: 'vendor=1',
    });
    expect(Number(length)).toBe(row?.bodyBytes);
    expect(row?.authorized).toBe(true);
  }
  const settled = await relay.waitFor((log) => openRequests(log).length === 0);
  expect(settled.findLast(({ event }) => event.type === 'request.accepted')?.event).toMatchObject({
    retry_count: 2,
  });
});

describe('bodies of calls that run at the same time never mix', () => {
  const bodyOf = (n: number, user: string): string => {
    const mark = `${user}/`.repeat(Math.ceil((100_000 + ((n * 37_117) % 800_000)) / (user.length + 1)));
    const model = n % 5 === 0 ? 's:tokens=3,head=30ms' : 's:tokens=3';
    const stream = n % 2 === 0 ? '"stream":true,' : '';
    return `{"model":"${model}","user":"${user}",${stream}"messages":["${mark}"]}`;
  };
  const expected = (n: number, body: string): string => (n % 2 === 0 ? `${body.slice(0, -1)},${ASK}}` : body);

  /** Calls again, as clients do, while the server is too busy to begin another call. */
  const admitted = async (call: () => Promise<ChatReply>): Promise<ChatReply> => {
    for (;;) {
      const reply = await call();
      if (errorCodeOf(reply) !== 'relay_overloaded') return reply;
      await wait(200);
    }
  };

  test('eighty at once, a quarter of them from clients that leave half-way', async () => {
    const clients: ChatReply[] = [];
    await Promise.all(
      Array.from({ length: 80 }, async (_, n) => {
        const user = randomUUID();
        const body = bodyOf(n, user);
        const leave =
          n % 8 === 3
            ? ({ abortAt: 'half_body' } as const)
            : n % 8 === 6
              ? ({ abortAt: 'sent' } as const)
              : {};
        const reply = await admitted(() => chat({ port: relay.port, key: relay.key, body, ...leave }));
        clients.push(reply);
        if (!reply.aborted) expect([reply.status, reply.tokens]).toEqual([200, 3]);
        for (const row of upstream.attemptsOf(user)) expect(row.bodySha256).toBe(sha256(expected(n, body)));
        expect(upstream.attemptsOf(user).length).toBeLessThanOrEqual(1);
      }),
    );
    await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
    const events = await relay.waitFor((log) => openRequests(log).length === 0);
    const users = new Set(clients.map(({ user }) => user));
    const ledger = upstream.ledger.attempts.filter(({ user }) => users.has(user));
    const theirs = new Set(clients.map(({ requestId }) => requestId));
    const known = events.filter(
      ({ event }) =>
        'request' in event &&
        (theirs.has(event.request) || ('model' in event && event.model?.startsWith('s:tokens=3'))),
    );
    expect(checkIdentity({ ledger, events: known, clients, accounting: 'strict' }).violations).toEqual([]);
  });

  test('nor when an upstream answers before it has read them', async () => {
    const call = (
      model: string,
      bytes: number,
      fill: string,
    ): { body: string; reply: Promise<ChatReply> } => {
      const body = `{"model":"${model}","messages":["${fill.repeat(bytes)}"]}`;
      return { body, reply: chat({ port: relay.port, key: relay.key, body }) };
    };
    const handedOver = (bodyBytes: number): Promise<void> =>
      new Promise((resolve) => {
        const notice = (message: unknown): void => {
          if ((message as { request: { body: Buffer | null } }).request.body?.length !== bodyBytes) return;
          unsubscribe('undici:client:sendHeaders', notice);
          resolve();
        };
        subscribe('undici:client:sendHeaders', notice);
      });

    // More than the kernel buffers: the rest waits in this process, and so does everything behind it.
    const large = call('hasty', 28 * KIB * KIB, 'a');
    expect((await large.reply).status).toBe(200);
    const small = { bytes: 500_000, fill: 'b' };
    const waiting = handedOver(small.bytes + '{"model":"hasty","messages":[""]}'.length);
    const slabbed = call('hasty', small.bytes, small.fill);
    await waiting;
    hasty.answer();
    expect((await slabbed.reply).status).toBe(200);

    // The call is over, its bytes are not. Anyone who comes next must not be given their memory.
    for (let n = 0; n < 5; n += 1) expect((await call('ok', 500_000, 'c').reply).status).toBe(200);
    expect(await hasty.readOn(2)).toEqual([large.body, slabbed.body].map(sha256));
  });
});
