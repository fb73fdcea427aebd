import { afterAll, beforeAll, expect, test } from 'vitest';
import { openRequests, settledOf } from '../support/faults.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Calls that refer to content which a provider keeps: they go to the upstream that has it. */

const PATH = '/v1/responses';
const SESSIONS = Array.from({ length: 12 }, (_, index) => `session-${index}`);

let [one, other] = [undefined, undefined] as unknown as [ScriptedUpstream, ScriptedUpstream];
let relay: TestRelay;

beforeAll(async () => {
  [one, other] = await Promise.all([startUpstream(), startUpstream()]);
  relay = await startRelay();
  await declare(relay, {
    upstreams: {
      one: { base_url: one.baseUrl, routes: [PATH] },
      other: { base_url: other.baseUrl, routes: [PATH] },
    },
    models: {
      both: {
        targets: [
          { upstream: 'one', model: 's:tokens=3' },
          { upstream: 'other', model: 's:tokens=3' },
        ],
      },
      moved: {
        targets: [
          { upstream: 'one', model: 's:status=404' },
          { upstream: 'other', model: 's:tokens=3' },
        ],
      },
    },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await Promise.all([one?.close(), other?.close()]);
});

const ask = (model: string, session: string | null, more: object = {}): Promise<ChatReply> =>
  chat({
    port: relay.port,
    key: relay.key,
    path: PATH,
    body: { model, input: 'hi', ...more },
    headers: session === null ? {} : { 'x-daybook-session': session },
  });
/** The upstreams of these calls, in their order. */
async function placesOf(replies: readonly ChatReply[]): Promise<(string | undefined)[]> {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  return replies.map(({ requestId }) => settledOf(log, requestId)?.upstream);
}

test('the calls of a session, or of a key without one, go to the same upstream', async () => {
  const first = await Promise.all(SESSIONS.map((session) => ask('both', session)));
  const again = await Promise.all(
    SESSIONS.map((session) => ask('both', session, { conversation: 'conv_1' })),
  );
  const places = await placesOf(first);
  expect(await placesOf(again)).toEqual(places);
  expect(new Set(places)).toEqual(new Set(['one', 'other']));
  const plain = await placesOf(await Promise.all(SESSIONS.map(() => ask('both', null))));
  expect(new Set(plain).size).toBe(1);
  // A reply that is not stored can come from anywhere.
  const unstored = SESSIONS.concat(SESSIONS).map(() => ask('both', null, { store: false }));
  expect(new Set(await placesOf(await Promise.all(unstored))).size).toBe(2);
});

test('a reference that an upstream does not have is looked for at the others', async () => {
  const replies = await Promise.all(
    SESSIONS.map((session) => ask('moved', session, { conversation: 'conv_1' })),
  );
  expect(replies.map(({ status }) => status)).toEqual(SESSIONS.map(() => 200));
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const outcomes = replies.map(
    ({ requestId }) => settledOf(log, requestId)?.attempts?.map(({ outcome }) => outcome) ?? ['completed'],
  );
  expect(new Set(outcomes.map(String))).toEqual(new Set(['completed', 'reference_not_found,completed']));
});
