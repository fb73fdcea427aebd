import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { errorCodeOf, openRequests, settledOf } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { hasHadItsTurn, holdLog, startRelay, type TestRelay, until } from '../support/relay.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/**
 * Several upstreams while the call is not in the log yet: who fails is followed by the next, and the client
 * hears of none of them.
 */

const TOTAL_MS = 900;

let [first, second] = [undefined, undefined] as unknown as [ScriptedUpstream, ScriptedUpstream];
let relay: TestRelay;
const clients: ChatReply[] = [];

beforeAll(async () => {
  [first, second] = await Promise.all([startUpstream(), startUpstream()]);
  relay = await startRelay({ env: { ACCOUNTING: 'overlapped', UPSTREAM_TOTAL_TIMEOUT_MS: `${TOTAL_MS}` } });
  const behind = { upstream: 'second', model: 's:tokens=7', order: 1 };
  const before = (model: string) => ({
    targets: [{ upstream: model === 'refused' ? 'refused' : 'first', model }, behind],
  });
  await declare(relay, {
    upstreams: {
      first: { base_url: first.baseUrl },
      second: { base_url: second.baseUrl },
      refused: { base_url: `http://127.0.0.1:${await refusedPort()}/v1` },
    },
    models: {
      refused: before('refused'),
      cut: before('s:end=cut@head'),
      wrong: before('s:status=500'),
      silent: before('s:end=hang@head'),
    },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await Promise.all([first?.close(), second?.close()]);
});

const settlements = async (
  replies: readonly ChatReply[],
): Promise<(EventOf<'request.settled'> | undefined)[]> => {
  const events = await relay.waitFor((log) => replies.every(({ requestId }) => settledOf(log, requestId)));
  return replies.map(({ requestId }) => settledOf(events, requestId));
};

/** Makes calls while nothing can be appended; returns them with what they have received by then. */
async function callWhileHeld(
  models: readonly string[],
  isAsFar: () => boolean,
): Promise<{ heldBytes: number; replies: ChatReply[] }> {
  await using held = await holdLog(relay.store);
  let heldBytes = 0;
  const calls = models.map((model, index) =>
    chat({
      port: relay.port,
      key: relay.key,
      body: { model, messages: [], user: randomUUID(), stream: index % 2 === 0 },
    }).then((reply) => {
      if (!isReleased) heldBytes += reply.raw.length;
      return reply;
    }),
  );
  let isReleased = false;
  await held.awaited();
  await until(isAsFar, (is) => is, 'what the upstreams were asked');
  await hasHadItsTurn(relay.port);
  const before = heldBytes;
  isReleased = true;
  await held.release();
  const replies = await Promise.all(calls);
  clients.push(...replies);
  return { heldBytes: before, replies };
}

test('connection failures fall back before the call is recorded, with no byte to the client', async () => {
  const models = ['refused', 'refused', 'cut', 'cut'];
  const { heldBytes, replies } = await callWhileHeld(
    models,
    () => second.ledger.attempts.filter(({ status }) => status === 200).length === 4,
  );
  expect(heldBytes).toBe(0);
  expect(replies.map(({ status, tokens, sawError }) => [status, tokens, sawError])).toEqual(
    models.map(() => [200, 7, false]),
  );
  expect(
    (await settlements(replies)).map((settled) => [
      settled?.attempt_count,
      settled?.usage_source,
      settled?.output_tokens,
      settled?.attempts?.[0]?.outcome,
    ]),
  ).toEqual([
    [2, 'provider', 7, 'unreachable'],
    [2, 'provider', 7, 'unreachable'],
    [2, 'provider', 7, 'cut'],
    [2, 'provider', 7, 'cut'],
  ]);
});

test('an error status falls back after the call is recorded; the client sees the fallback only', async () => {
  const asked = first.ledger.attempts.length;
  const { heldBytes, replies } = await callWhileHeld(
    ['wrong', 'wrong'],
    () => first.ledger.attempts.slice(asked).filter(({ status }) => status === 500).length === 2,
  );
  expect([heldBytes, ...replies.map(({ status, tokens }) => [status, tokens])]).toEqual([
    0,
    [200, 7],
    [200, 7],
  ]);
  expect(
    (await settlements(replies)).map((settled) => settled?.attempts?.map(({ outcome }) => outcome)),
  ).toEqual([
    ['status_500', 'completed'],
    ['status_500', 'completed'],
  ]);
});

test('a call that times out before it is recorded does not fall back', async () => {
  const asked = second.ledger.attempts.length;
  const beganMs = performance.now();
  const { heldBytes, replies } = await callWhileHeld(
    ['silent', 'silent'],
    () => performance.now() - beganMs > TOTAL_MS + 200,
  );
  expect([heldBytes, ...replies.map((reply) => [reply.status, errorCodeOf(reply)])]).toEqual([
    0,
    [504, 'upstream_timeout'],
    [504, 'upstream_timeout'],
  ]);
  expect(second.ledger.attempts.length).toBe(asked);
  expect(
    (await settlements(replies)).map((settled) => [
      settled?.attempt_count,
      settled?.end_reason,
      settled?.upstream,
    ]),
  ).toEqual([
    [1, 'timed_out', 'first'],
    [1, 'timed_out', 'first'],
  ]);
});

test('the log, the upstreams and the clients agree on all of that, and no connection is left', async () => {
  const ledger = [...first.ledger.attempts, ...second.ledger.attempts];
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  expect(checkIdentity({ ledger, events, clients, accounting: 'overlapped' })).toEqual({
    violations: [],
    unattributed: [],
  });
  await relay.stop();
  await expect.poll(() => first.connections + second.connections).toBe(0);
});
