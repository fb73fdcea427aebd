import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { chat, type ChatReply } from '../support/client.ts';
import { expectRefusal, onlyReply } from '../support/wire/raw-http.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** What takes its time by design. All of it waits at the same time. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** Longer than the silence after which a comment is due. */
const SILENCE = '17s';

const ask = (script: string, stream: boolean): Promise<ChatReply> =>
  chat({
    port: relay.port,
    key: relay.key,
    body: { model: `s:tokens=2,${script}=${SILENCE}`, messages: [], stream, user: randomUUID() },
  });

describe.concurrent('an upstream that is silent for long', () => {
  test.for(['every', 'first'])(
    "after its head: a comment keeps the client's connection alive, and nothing else is added (%s)",
    async (pause, { expect }) => {
      const { comments, events, tokens, sawDone, body } = await ask(pause, true);
      expect([comments, tokens, sawDone]).toEqual([['keep-alive'], 2, true]);
      expect(body.toString().replace(': keep-alive\n\n', '')).toMatch(/^(data: [^\n]+\n\n)+$/);
      expect(events.length).toEqual(4);
    },
  );

  test('before its head: nothing is said, since its status is not known', async ({ expect }) => {
    const { comments, tokens, raw } = await ask('head', true);
    expect([comments, tokens, raw.toString().startsWith('HTTP/1.1 200')]).toEqual([[], 2, true]);
  });

  test('in a JSON reply: nothing is put into it', async ({ expect }) => {
    const { user, tokens, body } = await ask('every', false);
    const sent = upstream.ledger.replyBody(upstream.attemptsOf(user ?? '')[0]?.attempt ?? 0);
    expect([tokens, body.toString()]).toEqual([2, sent.toString()]);
  });
});

describe.concurrent('a client that drips', () => {
  test('its headers, or sends nothing, is informed and closed, however many there are', async () => {
    const replies = await Promise.all(
      Array.from(
        { length: 100 },
        (_, index) =>
          new Promise<Buffer>((resolve) => {
            const parts: Buffer[] = [];
            const isSilent = index % 2 === 0;
            const socket = connect(relay.port, '127.0.0.1', () =>
              socket.write(isSilent ? '' : 'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nx-slow: '),
            );
            const drip = setInterval(() => socket.write(isSilent ? '' : 'x'), 500);
            socket.on('data', (part: Buffer) => parts.push(part));
            socket.on('error', () => {});
            socket.on('close', () => {
              clearInterval(drip);
              resolve(Buffer.concat(parts));
            });
          }),
      ),
    );
    for (const reply of replies) expectRefusal(onlyReply(reply), 408, 'request_timeout');
  });
});
