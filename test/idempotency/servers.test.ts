import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ChatReply } from '../support/client.ts';
import { chat } from '../support/client.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { changeControl, makePlace, openLog, readiness, until } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { openSession, type TestDatabase } from '../support/database.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Idempotency keys hold over several servers, and through their ends. */

let upstream: ScriptedUpstream;
let fleet: Fleet;
let keeping: string;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({ upstreams: [upstream] });
  keeping = (await fleet.tenant('keeping', { keep_replies: true })).secret;
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

let models = 0;
const modelOf = (script: string): string => `s:${script},seed=${++models}`;
const attemptsOf = (model: string) => upstream.ledger.attempts.filter((each) => each.model === model);
const bodyOf = (model: string, stream: boolean) => ({
  model,
  stream,
  messages: [{ role: 'user', content: 'hi' }],
});
const codeOf = ({ body }: ChatReply): unknown =>
  (JSON.parse(body.toString()) as { error: { code: unknown } }).error.code;

test.each([true, false])(
  'repeats at three servers at the same time get one reply, carried out once (stream: %s)',
  async (stream) => {
    const model = modelOf('tokens=10,every=40ms');
    const headers = { 'idempotency-key': randomUUID() };
    const replies = await Promise.all(
      Array.from({ length: 9 }, (_, index) =>
        fleet.chat(index, { key: keeping, headers, body: bodyOf(model, stream) }),
      ),
    );
    expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200));
    expect(new Set(replies.map(({ body }) => body.toString())).size).toBe(1);
    expect(replies.filter((reply) => reply.header('idempotent-replayed') === null)).toHaveLength(1);
    expect(attemptsOf(model)).toHaveLength(1);
    const log = await fleet.settledLog();
    const accepted = log.filter(({ event }) => event.type === 'request.accepted' && event.model === model);
    expect(accepted).toHaveLength(1);
  },
);

test('the reply to a request that ended on a server is sent by the others, also after its end', async () => {
  const model = modelOf('tokens=5');
  const headers = { 'idempotency-key': randomUUID() };
  const ask = (instance: number) =>
    fleet.chat(instance, { key: keeping, headers, body: bodyOf(model, true) });
  const first = await ask(2);
  await fleet.stop(2);
  for (const instance of [0, 1]) {
    const again = await ask(instance);
    expect(again.body.toString()).toBe(first.body.toString());
    expect(again.header('original-request')).toBe(first.requestId);
  }
  expect(attemptsOf(model)).toHaveLength(1);
});

test('a request whose reply is not kept can be joined on its own server only', async () => {
  const { secret: key } = await fleet.tenant('unkept', {});
  const model = modelOf('tokens=10,every=50ms');
  const headers = { 'idempotency-key': randomUUID() };
  const running = fleet.chat(0, { key, headers, body: bodyOf(model, true) });
  await upstream.ledger.until(() => attemptsOf(model).length === 1);
  const [elsewhere, joined] = await Promise.all([
    fleet.chat(1, { key, headers, body: bodyOf(model, true) }),
    fleet.chat(0, { key, headers, body: bodyOf(model, true) }),
  ]);
  const first = await running;
  expect(elsewhere.status).toBe(409);
  expect(codeOf(elsewhere)).toBe('idempotency_key_in_use');
  expect(elsewhere.header('original-request')).toBe(first.requestId);
  expect(joined.body.toString()).toBe(first.body.toString());
  const later = await until(
    () => fleet.chat(1, { key, headers, body: bodyOf(model, true) }),
    (reply) => codeOf(reply) !== 'idempotency_key_in_use',
    'the end of the request',
  );
  expect(codeOf(later)).toBe('idempotent_reply_unavailable');
  expect(attemptsOf(model)).toHaveLength(1);
});

test(
  'the request of a killed server is not sent a second time, and kept replies outlive it',
  { timeout: 240_000 },
  async () => {
    await using place = await makePlace({ upstreams: [upstream] });
    const store = place.store as TestDatabase;
    const log = openLog(store);
    let server = await spawnServer(place.env);
    const key = server.firstKey as string;
    const ask = (idempotencyKey: string, model: string) =>
      chat({
        port: server.port,
        key,
        headers: { 'idempotency-key': idempotencyKey },
        body: bodyOf(model, true),
      });
    const owner = await openSession(store.config('owner'));
    const keptReplies = async () => (await owner.query('select from daybook.idempotent_reply')).rowCount;
    try {
      await changeControl(store, place.dataDir, (control) =>
        control.overrideTerms('first', { keep_replies: true }, 'keep'),
      );
      const newest = (await log.read()).at(-1)?.position ?? 0;
      await until(
        () => readiness(server.port),
        ({ position }) => position >= newest,
        'the read model',
      );
      const kept = modelOf('tokens=3');
      const again = randomUUID();
      const first = await ask(again, kept);
      await until(keptReplies, (count) => count === 1, 'the kept reply');
      expect((await ask(again, kept)).header('idempotent-replayed')).toBe('true');
      const lost = modelOf('tokens=500,every=20ms');
      const lostKey = randomUUID();
      const cut = ask(lostKey, lost);
      await upstream.ledger.until(() => attemptsOf(lost).some(({ tokensSent }) => tokensSent > 3));
      await server.kill();
      const { requestId } = await cut;
      server = await spawnServer(place.env);
      const repeat = await until(
        () => ask(lostKey, lost),
        ({ status }) => status === 409,
        'the recovery',
      );
      expect(codeOf(repeat)).toBe('idempotent_outcome_unknown');
      expect(repeat.body.toString()).toContain(requestId);
      expect(attemptsOf(lost)).toHaveLength(1);
      const events = await until(log.read, (read) => openRequests(read).length === 0, 'the log');
      expect(settledOf(events, requestId)).toBeUndefined();
      expect((await ask(again, kept)).body.toString()).toBe(first.body.toString());
    } finally {
      await server.kill();
      await log.close();
      await owner.end();
    }
  },
);
