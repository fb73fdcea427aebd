import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream/raw-upstream.ts';

/** Upstreams that compress although they are asked not to. */

const ENCODINGS: Record<string, (text: string) => Buffer> = {
  gzip: (text) => gzipSync(text),
  'X-GZIP': (text) => gzipSync(text),
  deflate: (text) => deflateSync(text),
  br: (text) => brotliCompressSync(text),
  zstd: (text) => zstdCompressSync(text),
};
const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 };
const message = { role: 'assistant', content: 'compressed 潮汐' };
const JSON_REPLY = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage });
const EVENTS = [
  { choices: [{ index: 0, delta: { content: 'compressed 潮汐' } }] },
  { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  { choices: [], usage },
].map((event) => `data: ${JSON.stringify(event)}\n\n`);
const SSE_REPLY = `${EVENTS.join('')}data: [DONE]\n\n`;
const ERROR = JSON.stringify({ error: { message: 'The prompt is too long.', param: 'messages' } });

/** Sends a compressed body, `cut` bytes shorter than it is. */
async function answer(socket: Socket, head: string, body: Buffer, cut = 0): Promise<void> {
  socket.write(`HTTP/1.1 ${head}\r\nconnection: close\r\n\r\n`);
  const sent = body.subarray(0, body.length - cut);
  // In pieces, as a network in between sends them.
  for (let at = 0; at < sent.length; at += Math.ceil(sent.length / 4)) {
    if (!socket.write(sent.subarray(at, at + Math.ceil(sent.length / 4)))) await once(socket, 'drain');
    await wait(1);
  }
  socket.end();
}

/** By model: `<encoding>`, or what is wrong with the reply. */
async function reply(asked: string, socket: Socket): Promise<void> {
  const { model, stream = false } = JSON.parse(asked) as { model: string; stream?: boolean };
  const type = `content-type: ${stream ? 'text/event-stream' : 'application/json'}`;
  const text = stream ? SSE_REPLY : JSON_REPLY;
  const ok = `200 OK\r\n${type}\r\ncontent-encoding: `;
  const compress = ENCODINGS[model];
  if (compress) return answer(socket, `${ok}${model}`, compress(text));
  switch (model) {
    case 'error':
      return answer(
        socket,
        '400 No\r\ncontent-type: application/json\r\ncontent-encoding: br',
        brotliCompressSync(ERROR),
      );
    case 'unknown':
      return answer(socket, `${ok}compress`, Buffer.from('xx'));
    case 'twice':
      return answer(socket, `${ok}gzip, gzip`, gzipSync(gzipSync(text)));
    case 'limited':
      return answer(socket, '429 No\r\nretry-after: 7\r\ncontent-encoding: compress', Buffer.from('xx'));
    case 'wrong':
      return answer(socket, `${ok}gzip`, Buffer.from(text));
    case 'cut':
      return answer(socket, `${ok}gzip`, gzipSync(text), 60);
    default:
      // A thousandth of the size of what it becomes.
      return answer(socket, `${ok}gzip`, gzipSync(Buffer.alloc(2 * JSON_REPLY_BYTES_MAX, ' ')));
  }
}

let upstream: RawUpstream;
let relay: TestRelay;
const MODELS = [...Object.keys(ENCODINGS), 'error', 'unknown', 'twice', 'limited', 'wrong', 'cut', 'bomb'];

beforeAll(async () => {
  upstream = await startRawUpstream((body, socket) => void reply(body, socket).catch(() => socket.destroy()));
  // An upstream for each model: a failure must not open the circuit of another one.
  relay = await startRelay({
    upstreams: MODELS.map((name, index) => ({
      name: `upstream-${index}`,
      baseUrl: upstream.baseUrl,
      models: [name],
    })),
  });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.[Symbol.asyncDispose]();
});

const ask = (model: string, stream: boolean, headers: Record<string, string> = {}): Promise<ChatReply> =>
  chat({
    port: relay.port,
    key: relay.key,
    headers,
    body: {
      model,
      ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
      messages: [{ role: 'user', content: 'a' }],
    },
  });
const endingOf = async ({ header }: ChatReply): Promise<EventOf<'request.settled'>> => {
  const isOwn = (event: { type: string; request?: string }): event is EventOf<'request.settled'> =>
    event.type === 'request.settled' && event.request === header('x-request-id');
  const log = await relay.waitFor((all) => all.some(({ event }) => isOwn(event)));
  return log.map(({ event }) => event).find((event) => isOwn(event)) as EventOf<'request.settled'>;
};

describe.each(Object.keys(ENCODINGS))('a reply in %s', (encoding) => {
  test.each([false, true])(
    'is the same as one that was never compressed, with its usage, whatever the client accepts; streamed: %s',
    async (stream) => {
      for (const accepted of ['gzip, deflate, br, zstd', 'identity']) {
        const got = await ask(encoding, stream, { 'accept-encoding': accepted });
        expect(got.status).toBe(200);
        expect(got.body.toString()).toBe(stream ? SSE_REPLY : JSON_REPLY);
        expect(got.header('content-encoding')).toBeNull();
        expect(await endingOf(got)).toMatchObject({
          end_reason: 'completed',
          usage_source: 'provider',
          input_tokens: 5,
          output_tokens: 7,
        });
      }
    },
  );
});

test('an error that is compressed keeps its status and its message', async () => {
  const got = await ask('error', false);
  expect(got.status).toBe(400);
  expect(got.body.toString()).toContain('The prompt is too long.');
  const limited = await ask('limited', false);
  expect(limited.status).toBe(503);
  expect(limited.header('retry-after')).toBe('7');
});

test.each(['unknown', 'twice', 'wrong', 'cut'])(
  'a reply whose encoding is %s ends the call, and none of it is charged as a whole one',
  async (model) => {
    for (const stream of [false, true]) {
      const got = await ask(model, stream);
      if (got.status === 200) expect(got.body.toString()).not.toContain('[DONE]');
      else expect(got.status).toBe(502);
      expect((await endingOf(got)).end_reason).not.toBe('completed');
    }
  },
);

test('a small reply that becomes a large one is bounded as any other', async () => {
  const got = await ask('bomb', false);
  expect(got.status).toBe(502);
  expect((await endingOf(got)).end_reason).toBe('upstream_error');
});
