import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { clientOf, create, inputOf, requestsOf, upload } from '../support/batches/input.ts';
import { usageOfLine } from '../support/batches/answers.ts';
import { openSession, type TestDatabase } from '../support/database.ts';
import { openRequests } from '../support/faults.ts';
import { startFleet } from '../support/fleet.ts';
import { changeControl, makePlace, openLog, type Place, until } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Lines of batches are settled once each, whichever servers live. */

const MODEL = 'gpt-batch';
const ROUTES = ['/v1/chat/completions'];
const QUOTA = { meter: 'tokens', window: 'day', limit: 10_000_000, enforcement: 'hard' } as const;

let upstream: ScriptedUpstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream?.close());

/** Lines with an ending. @throws where a line has two, or an ending is not its provider's. */
function endedLines(log: readonly Placed[]): number {
  const ended = new Set<string>();
  const wrong: string[] = [];
  for (const { event } of log) {
    if (event.type !== 'request.settled' && event.type !== 'request.abandoned') continue;
    if (ended.has(event.request)) wrong.push(`${event.request} ended twice`);
    if (event.usage_source !== 'provider') wrong.push(`${event.request} by ${event.usage_source}`);
    ended.add(event.request);
  }
  expect(wrong).toEqual([]);
  return ended.size;
}

const tokensOf = (lines: number): number =>
  Array.from({ length: lines }, (_, number) => usageOfLine(number)).reduce(
    (sum, { prompt, completion }) => sum + prompt + completion,
    0,
  );

/** The units of the account's quota that are charged. */
async function chargedUnits(place: Place): Promise<number> {
  const client = await openSession((place.store as TestDatabase).config('owner'));
  try {
    const { rows } = await client.query<{ used: string }>(
      `select used + overdrawn + adjusted as used from daybook.allowance
        where subject like 'account/%' and meter = 2`,
    );
    return Number(rows[0]?.used ?? -1);
  } finally {
    await client.end();
  }
}

/** Servers settle what killed ones left, so that no worker is needed. */
const envOf = ({ env }: Place): Record<string, string> => ({ ...env, DAYBOOK_WORKER: 'off' });

async function setQuota(place: Place, server: { baseUrl: string; firstKey: string | null }): Promise<string> {
  await changeControl(place.store as TestDatabase, place.dataDir, (control) =>
    control.overrideTerms('first', { quotas: [QUOTA] }, 'keep'),
  );
  const key = server.firstKey as string;
  const headers = { authorization: `Bearer ${key}` };
  await until(
    async () => (await (await fetch(`${server.baseUrl}/usage`, { headers })).json()) as { limits: unknown[] },
    ({ limits }) => limits.length === 1,
    'the quota in force',
  );
  return key;
}

test('servers that are killed while they settle a batch leave each line settled once', async () => {
  await using place = await makePlace({ upstreams: [{ baseUrl: upstream.baseUrl, routes: ROUTES }] });
  const log = openLog(place.store as TestDatabase);
  let server = await spawnServer(envOf(place));
  const lines = 1_600;
  try {
    const key = await setQuota(place, server);
    const client = clientOf(server.baseUrl, key);
    const file = await upload(client, inputOf(requestsOf(lines), MODEL));
    await create(client, file.id, { fault: 'slow_output' });
    let seen = 0;
    for (let kills = 0; kills < 2; kills++) {
      const before = seen;
      seen = endedLines(await until(log.read, (read) => endedLines(read) > before, 'more settled lines'));
      await server.kill();
      server = await spawnServer(envOf(place));
    }
    expect(seen).toBeLessThan(lines);
    const events = await until(log.read, (read) => openRequests(read).length === 0, 'the log');
    expect(endedLines(events)).toBe(lines);
    const tokens = tokensOf(lines);
    await until(
      () => chargedUnits(place),
      (used) => used === tokens,
      `${tokens} charged tokens`,
    );
  } finally {
    await server.kill();
    await log.close();
  }
});

test('a batch whose server is killed while it is created is found, and settled once', async () => {
  await using place = await makePlace({ upstreams: [{ baseUrl: upstream.baseUrl, routes: ROUTES }] });
  const log = openLog(place.store as TestDatabase);
  let server = await spawnServer(envOf(place));
  try {
    const key = await setQuota(place, server);
    const client = clientOf(server.baseUrl, key);
    const file = await upload(client, inputOf(requestsOf(5), MODEL));
    const created = upstream.batches.count;
    const creating = create(client, file.id, { fault: 'slow_reply' }).catch(() => null);
    await until(
      () => upstream.batches.count,
      (count) => count > created,
      'the batch',
    );
    await server.kill();
    expect(await creating).toBeNull();
    server = await spawnServer(envOf(place));
    const events = await until(
      log.read,
      (read) => read.length > 0 && openRequests(read).length === 0 && endedLines(read) === 5,
      'the log',
    );
    expect(endedLines(events)).toBe(5);
    await until(
      () => chargedUnits(place),
      (used) => used === tokensOf(5),
      'the charged tokens',
    );
    const listed = await clientOf(server.baseUrl, key).batches.list();
    expect(listed.data).toMatchObject([{ input_file_id: file.id, status: 'completed' }]);
  } finally {
    await server.kill();
    await log.close();
  }
});

test('over three servers each line is settled once, and counts by its usage', async () => {
  await using fleet = await startFleet({ upstreams: [{ baseUrl: upstream.baseUrl, routes: ROUTES }] });
  const { secret } = await fleet.tenant('busy', { quotas: [QUOTA] });
  const client = clientOf(`http://127.0.0.1:${fleet.ports[0]}/v1`, secret);
  const faults = ['shuffled', 'duplicates', 'cut_output'];
  await Promise.all(
    faults.map(async (fault) => {
      const file = await upload(client, inputOf(requestsOf(40), MODEL));
      await create(client, file.id, { fault });
    }),
  );
  expect(endedLines(await fleet.settledLog())).toBe(40 * faults.length);
  const tokens = tokensOf(40) * faults.length;
  const usage = await until(
    () => fleet.usage(secret),
    ({ limits }) => limits[0]?.used === tokens,
    `${tokens} used tokens`,
  );
  expect(usage.limits[0]).toMatchObject({ meter: 'tokens', used: tokens, reserved: 0 });
});
