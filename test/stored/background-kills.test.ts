import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import type { ChatReply } from '../support/client.ts';
import { openSession, type TestDatabase } from '../support/database.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { startFleet } from '../support/fleet.ts';
import { changeControl, makePlace, openLog, type Place, until } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Background responses are settled once each, whichever servers live. */

const PATH = '/v1/responses';
const TOKENS = 7;
const QUOTA = { meter: 'tokens', window: 'day', limit: 1_000_000, enforcement: 'hard' } as const;

let upstream: ScriptedUpstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream?.close());

const bodyOf = (everyMs: number, more: object = {}) => ({
  model: `s:tokens=${TOKENS},every=${everyMs}ms`,
  input: 'hi',
  max_output_tokens: 300,
  background: true,
  ...more,
});

type Begun = { requestId: string; id: string };

/** Begins a background response, and returns when its id has come. */
async function begin(port: number, key: string, body: object): Promise<Begun> {
  const reply = await fetch(`http://127.0.0.1:${port}${PATH}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  let text = '';
  for await (const chunk of reply.body ?? []) {
    text += Buffer.from(chunk).toString();
    const id = /"(resp_[\w-]+)"/.exec(text)?.[1];
    if (id !== undefined) return { requestId: reply.headers.get('x-request-id') ?? '', id };
  }
  throw new Error(`the reply has no id: ${text}`);
}

async function limitsOf(baseUrl: string, key: string): Promise<unknown[]> {
  const reply = await fetch(`${baseUrl}/usage`, { headers: { authorization: `Bearer ${key}` } });
  return ((await reply.json()) as { limits: unknown[] }).limits;
}

/** The units of the account's quota that are charged. */
async function chargedUnits(place: Place): Promise<number> {
  const client = await openSession((place.store as TestDatabase).config('owner'));
  try {
    const { rows } = await client.query<{ used: string }>(
      `select used + overdrawn + adjusted as used from daybook.allowance
        where subject like 'account/%' and meter = 2`,
    );
    return Number(rows[0]?.used);
  } finally {
    await client.end();
  }
}

/** The tokens of these calls, each of which has exactly one ending with its provider's usage. */
function usedTokens(log: readonly Placed[], replies: readonly Pick<ChatReply, 'requestId'>[]): number {
  let tokens = 0;
  for (const { requestId } of replies) {
    const endings = log.filter(
      ({ event }) =>
        (event.type === 'request.settled' || event.type === 'request.abandoned') &&
        event.request === requestId,
    );
    expect(endings).toHaveLength(1);
    const ending = settledOf(log, requestId);
    expect(ending).toMatchObject({ usage_source: 'provider', output_tokens: TOKENS });
    tokens += (ending?.input_tokens ?? 0) + (ending?.output_tokens ?? 0);
  }
  return tokens;
}

test('a background response is settled once after its server and worker were killed', async () => {
  await using place = await makePlace({ upstreams: [{ baseUrl: upstream.baseUrl, routes: [PATH] }] });
  const store = place.store as TestDatabase;
  const log = openLog(store);
  let server = await spawnServer(place.env);
  const key = server.firstKey as string;
  const replies: Begun[] = [];
  try {
    await changeControl(store, place.dataDir, (control) =>
      control.overrideTerms('first', { quotas: [QUOTA] }, 'keep'),
    );
    await until(
      () => limitsOf(server.baseUrl, key),
      ({ length }) => length === 1,
      'the quota in force',
    );
    for (const more of [{}, { stream: true }, {}]) {
      replies.push(await begin(server.port, key, bodyOf(200, more)));
      await server.kill();
      server = await spawnServer(place.env);
    }
    const events = await until(log.read, (read) => openRequests(read).length === 0, 'the log');
    const tokens = usedTokens(events, replies);
    await until(
      () => chargedUnits(place),
      (used) => used === tokens,
      `${tokens} charged tokens`,
    );
    const id = replies[0]?.id ?? '';
    const found = await fetch(`${server.baseUrl}/responses/${id}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(await found.json()).toMatchObject({ id, status: 'completed' });
  } finally {
    await server.kill();
    await log.close();
  }
});

test('responses that a server has settled are not charged to its leases when it dies', async () => {
  await using place = await makePlace({ upstreams: [{ baseUrl: upstream.baseUrl, routes: [PATH] }] });
  const store = place.store as TestDatabase;
  // The next server recovers it.
  const env = { ...place.env, DAYBOOK_WORKER: 'off' };
  const log = openLog(store);
  let server = await spawnServer(env);
  const owner = await openSession(store.config('owner'));
  try {
    await changeControl(store, place.dataDir, (control) =>
      control.overrideTerms('first', { quotas: [QUOTA] }, 'keep'),
    );
    const key = server.firstKey as string;
    await until(
      () => limitsOf(server.baseUrl, key),
      ({ length }) => length === 1,
      'the quota in force',
    );
    const reply = await begin(server.port, key, bodyOf(20));
    const tokens = usedTokens(await until(log.read, (read) => openRequests(read).length === 0, 'the log'), [
      reply,
    ]);
    await until(
      () => chargedUnits(place),
      (used) => used === tokens,
      `${tokens} charged tokens`,
    );
    const { rows } = await owner.query<{ instance: number }>(
      `select instance from daybook.log_batch where batch_no < -4294967296
        order by last_position desc limit 1`,
    );
    await server.kill();
    server = await spawnServer(env);
    await until(
      () =>
        owner.query('select from daybook.instance where id = $1 and closed_at is not null', [
          rows[0]?.instance,
        ]),
      ({ rowCount }) => rowCount === 1,
      'the recovery',
    );
    expect(await chargedUnits(place)).toBe(tokens);
  } finally {
    await owner.end();
    await server.kill();
    await log.close();
  }
});

test('over three servers each background response is settled once, and counts by its usage', async () => {
  await using fleet = await startFleet({ upstreams: [{ baseUrl: upstream.baseUrl, routes: [PATH] }] });
  const { secret } = await fleet.tenant('busy', { quotas: [QUOTA] });
  const replies = await Promise.all(
    Array.from({ length: 24 }, (_, index) =>
      fleet.chat(index, { key: secret, path: PATH, body: bodyOf(20, { stream: index % 3 === 0 }) }),
    ),
  );
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200));
  const tokens = usedTokens(await fleet.settledLog(), replies);
  const usage = await until(
    () => fleet.usage(secret),
    ({ limits }) => limits[0]?.used === tokens,
    `${tokens} used tokens`,
  );
  expect(usage.limits[0]).toMatchObject({ meter: 'tokens', used: tokens, reserved: 0 });
});
