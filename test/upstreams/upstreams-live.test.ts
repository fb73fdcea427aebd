import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { errorCodeOf, openRequests } from '../support/faults.ts';
import { headerOf } from '../support/wire/http-message.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import type { Attempt } from '../support/upstream/ledger.ts';
import { commandsOf, declare, settled } from '../support/upstream/upstreams-live.ts';

/**
 * Upstreams, models and credentials that change while calls run: what is under way ends whole, and what comes
 * next goes the new way.
 */

const STREAM = 's:tokens=15,every=30ms';

let [one, two, guarded] = [undefined, undefined, undefined] as unknown as [
  ScriptedUpstream,
  ScriptedUpstream,
  ScriptedUpstream,
];
let relay: TestRelay;
const clients: ChatReply[] = [];
const GOOD = 'sk-good-credential-0123456789';
const BAD = 'sk-bad-credential-0123456789';

beforeAll(async () => {
  [one, two, guarded] = await Promise.all([
    startUpstream(),
    startUpstream(),
    startUpstream({ apiKey: GOOD }),
  ]);
  relay = await startRelay();
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await Promise.all([one?.close(), two?.close(), guarded?.close()]);
});

const daybook = async (...args: string[]): Promise<void> => {
  await commandsOf(relay).text(...args);
  await settled(relay);
};

async function call(model: string, more: object = {}): Promise<ChatReply> {
  const reply = await chat({
    port: relay.port,
    key: relay.key,
    body: { model, messages: [], user: randomUUID(), stream: true, ...more },
  });
  clients.push(reply);
  return reply;
}

/** Who answered: by the port that the scripted upstreams put into a reply's id. */
const answeredBy = ({ upstreamId }: ChatReply): string =>
  Object.entries({ one, two, guarded }).find(([, { port }]) => upstreamId?.includes(`-${port}-`))?.[0] ??
  'nobody';
const isWhole =
  (tokens: number) =>
  (reply: ChatReply): boolean =>
    reply.status === 200 && reply.tokens === tokens && reply.sawDone && !reply.sawError;

/** Changes something while ten replies are under way; tells who answered those, and who answers the next. */
async function changeMeanwhile(
  model: string,
  change: () => Promise<void>,
): Promise<{ meanwhile: string[]; next: string }> {
  const begun = one.ledger.attempts.length + two.ledger.attempts.length;
  const calls = Array.from({ length: 10 }, () => call(model));
  await until(
    () => [...one.ledger.attempts, ...two.ledger.attempts],
    (rows) => rows.length === begun + 10 && rows.every(({ tokensSent }) => tokensSent > 0),
    'the calls',
  );
  await change();
  const next = await call(model);
  const replies = await Promise.all(calls);
  expect(replies.filter(isWhole(15))).toHaveLength(10);
  return {
    meanwhile: [...new Set(replies.map(answeredBy))],
    next: next.status === 200 ? answeredBy(next) : `${next.status} ${errorCodeOf(next)}`,
  };
}

describe('while ten replies are under way', () => {
  beforeEach(() =>
    declare(relay, {
      upstreams: { here: { base_url: one.baseUrl, paused: false }, there: { base_url: two.baseUrl } },
      models: {
        moving: {
          targets: [
            { upstream: 'here', model: STREAM },
            { upstream: 'there', model: STREAM, order: 1 },
          ],
        },
      },
    }),
  );
  const from = (next: string): object => ({ meanwhile: ['one'], next });

  test('an upstream is sent somewhere else', async () => {
    expect(
      await changeMeanwhile('moving', () => daybook('upstream', 'change', 'here', '--base-url', two.baseUrl)),
    ).toEqual(from('two'));
  });

  test('an upstream is paused, and resumed', async () => {
    expect(await changeMeanwhile('moving', () => daybook('upstream', 'pause', 'here'))).toEqual(from('two'));
    await daybook('upstream', 'resume', 'here');
    expect(answeredBy(await call('moving'))).toBe('one');
  });

  test('a model is directed to another upstream, and retired', async () => {
    expect(
      await changeMeanwhile('moving', () =>
        daybook('model', 'define', 'moving', '--target', `there:${STREAM}`),
      ),
    ).toEqual(from('two'));
    await daybook('model', 'retire', 'moving');
    expect(errorCodeOf(await call('moving'))).toBe('model_not_found');
  });

  test('an upstream is removed, and one is added that lists its model', async () => {
    const away = async (): Promise<void> => {
      await daybook('model', 'retire', 'moving');
      await daybook('upstream', 'remove', 'here');
      await daybook(
        'upstream',
        'add',
        'new',
        '--base-url',
        two.baseUrl,
        '--network',
        'private',
        '--models',
        'moving',
      );
    };
    two.script('moving', STREAM.slice(2));
    expect(await changeMeanwhile('moving', away)).toEqual(from('two'));
    await daybook('upstream', 'remove', 'new');
  });

  test('a change affects only the changed upstream: connections of the others are kept', async () => {
    await call('moving');
    const before = one.ledger.attempts.at(-1)?.connection;
    await daybook('upstream', 'change', 'there', '--retries', '1');
    await call('moving');
    expect(one.ledger.attempts.at(-1)?.connection).toBe(before);
  });
});

test('no concurrent call fails or is retried while its upstreams keep changing', async () => {
  await declare(relay, {
    upstreams: { here: { base_url: one.baseUrl }, there: { base_url: two.baseUrl } },
    models: {
      crowded: {
        targets: [
          { upstream: 'here', model: 's:tokens=3' },
          { upstream: 'there', model: 's:tokens=3' },
        ],
      },
    },
  });
  const crowd: ChatReply[] = [];
  let isOver = false;
  const callers = Array.from({ length: 5 }, async () => {
    while (!isOver) crowd.push(await call('crowded'));
  });
  for (let round = 0; round < 4; round++) {
    await daybook('upstream', 'change', 'here', '--base-url', round % 2 === 0 ? two.baseUrl : one.baseUrl);
    await daybook('upstream', round % 2 === 0 ? 'pause' : 'resume', 'there');
  }
  isOver = true;
  await Promise.all(callers);
  expect(crowd.length).toBeGreaterThan(50);
  expect(
    crowd
      .filter((reply) => !isWhole(3)(reply))
      .map(({ status, body }) => [status, body.toString().slice(0, 300)]),
  ).toEqual([]);
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  const settlements = events
    .map(({ event }) => event)
    .filter((event): event is EventOf<'request.settled'> => event.type === 'request.settled');
  expect(
    settlements
      .filter(({ model, attempt_count }) => model === 'crowded' && attempt_count !== 1)
      .map(({ attempts }) => attempts),
  ).toEqual([]);
});

describe('of several credentials', () => {
  const credentialOf = ({ headers }: Attempt): string | null =>
    headerOf({ headers }, 'authorization')?.replace('Bearer ', '') ?? null;
  const attemptsFor = ({ user }: ChatReply): (string | null)[] =>
    [one, guarded].flatMap((upstream) => upstream.attemptsOf(user ?? '').map(credentialOf));

  /**
   * Declares a pool, and waits until each of its credentials has been used: they are opened one after the
   * other.
   */
  async function pool(name: string, upstream: ScriptedUpstream, ...secrets: string[]): Promise<void> {
    const variables = Object.fromEntries(secrets.map((secret, index) => [`SECRET_${index}`, secret]));
    const credentials = secrets.map((_, index) => ({ label: `${index}`, secret: `\${SECRET_${index}}` }));
    await declare(
      relay,
      { upstreams: { [name]: { base_url: upstream.baseUrl, models: [`${name}-*`], credentials } } },
      variables,
    );
    upstream.script(`${name}-probe`, 'tokens=2,every=30ms');
    const probe = async (): Promise<Set<string | null>> =>
      new Set((await Promise.all(secrets.map(() => call(`${name}-probe`)))).flatMap(attemptsFor));
    await until(probe, (used) => used.size === secrets.length, 'the credentials');
  }

  test('one that is refused is set aside, and the other does its work', async () => {
    await pool('mixed', guarded, BAD, GOOD);
    guarded.script('mixed-chat', 'tokens=4');
    expect(guarded.ledger.attempts.some((attempt) => credentialOf(attempt) === BAD)).toBe(true);
    const replies = [await call('mixed-chat'), await call('mixed-chat'), await call('mixed-chat')];
    expect(replies.map(isWhole(4))).toEqual([true, true, true]);
    expect(replies.map(attemptsFor)).toEqual([[GOOD], [GOOD], [GOOD]]);
  });

  test('one that is over its limit is left alone for as long as the upstream says', async () => {
    await pool('busy', one, 'sk-first', 'sk-second');
    one.script('busy-chat', 'status=429,retry=1|tokens=4');
    const busy = await call('busy-chat');
    const [over, other] = attemptsFor(busy) as [string, string];
    expect([isWhole(4)(busy), [over, other].toSorted()]).toEqual([true, ['sk-first', 'sk-second']]);
    one.script('busy-chat', 'tokens=4');
    // However many there are: all go by the other one.
    const crowd = await Promise.all(Array.from({ length: 6 }, () => call('busy-chat')));
    expect(crowd.flatMap(attemptsFor)).toEqual(Array.from({ length: 6 }, () => other));
    // It comes back by itself.
    await until(
      async () => attemptsFor(await call('busy-chat')),
      (used) => used.includes(over),
      'the credential',
    );
  });

  test('one that is removed is used no more, and what runs with it ends whole', async () => {
    await pool('both', one, 'sk-stays', 'sk-goes');
    one.script('both-chat', 'tokens=15,every=30ms');
    const calls = Array.from({ length: 6 }, () => call('both-chat'));
    await until(
      () => one.ledger.attempts.slice(-6),
      (rows) => rows.every(({ model, tokensSent }) => model === 'both-chat' && tokensSent > 0),
      'the calls',
    );
    const listed = await commandsOf(relay).json<{ id: string; label: string }[]>(
      'credential',
      'list',
      'both',
    );
    await daybook('credential', 'remove', listed.find(({ label }) => label === '1')?.id ?? '');
    const next = await Promise.all(Array.from({ length: 4 }, () => call('both-chat')));
    const running = await Promise.all(calls);
    expect([...running, ...next].filter(isWhole(15))).toHaveLength(10);
    expect([new Set(running.flatMap(attemptsFor)), new Set(next.flatMap(attemptsFor))]).toEqual([
      new Set(['sk-stays', 'sk-goes']),
      new Set(['sk-stays']),
    ]);
  });

  test('none is missed while the key that seals them is changed', async () => {
    await pool('sealed', one, 'sk-sealed');
    one.script('sealed-chat', 'tokens=10,every=10ms');
    const calls = Array.from({ length: 5 }, () => call('sealed-chat'));
    await daybook('rekey');
    expect((await Promise.all([...calls, call('sealed-chat')])).every(isWhole(10))).toBe(true);
  });
});

test('the log, the upstreams and the clients agree on all of that, and no connection is left', async () => {
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  const ledger = [one, two, guarded].flatMap((upstream) => upstream.ledger.attempts);
  expect(checkIdentity({ ledger, events, clients, accounting: 'strict' })).toEqual({
    violations: [],
    unattributed: [],
  });
  await relay.stop();
  await expect.poll(() => one.connections + two.connections + guarded.connections).toBe(0);
});
