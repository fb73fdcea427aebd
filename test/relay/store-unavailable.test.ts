import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSecret } from '#server/secrets/key-secret.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { expectRefusal } from '../support/wire/raw-http.ts';
import { readiness, startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Promise P7: whatever the store does, nobody is told that their key or their account is at fault. */

let upstream: ScriptedUpstream;
let relay: TestRelay;
let frozen: number[] = [];
const clients: ChatReply[] = [];

beforeAll(async () => {
  upstream = await startUpstream();
  // A cluster of its own, since it is frozen and killed here.
  relay = await startRelay({ upstreams: [upstream], postgres: 'embedded' });
});

afterAll(async () => {
  thaw();
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const call = async (model: string, stream: boolean, key = relay.key): Promise<ChatReply> => {
  const reply = await chat({
    port: relay.port,
    key,
    body: { model, messages: [], stream, user: randomUUID() },
  });
  clients.push(reply);
  return reply;
};

function postmaster(): number {
  return Number(
    readFileSync(path.join(relay.dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n', 1)[0],
  );
}

/** Stops every process of the cluster where it stands: it takes connections and never answers. */
function freeze(): void {
  const pid = postmaster();
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  frozen = [pid, ...table.filter(([, parent]) => parent === pid).map(([child]) => child as number)];
  for (const each of frozen) signal(each, 'SIGSTOP');
}

/** A process of the cluster may have ended since it was listed. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function thaw(): void {
  for (const each of frozen) signal(each, 'SIGCONT');
  frozen = [];
}

/** Calls until one succeeds, and returns what it took. */
async function recovered(): Promise<ChatReply[]> {
  const tries: ChatReply[] = [];
  await until(
    async () => {
      const reply = await call('ok', tries.length % 2 === 0);
      tries.push(reply);
      return reply.status;
    },
    (status) => status === 200,
    'the relay',
  );
  return tries;
}

function expectUnavailable(reply: ChatReply): void {
  const { type } = expectRefusal(
    { status: reply.status ?? 0, headers: reply.headers, body: reply.body },
    503,
    'store_unavailable',
  );
  expect(type).toBe('server_error');
  expect(reply.header('retry-after')).toMatch(/^[1-5]$/);
}

test('a frozen store is a 503 with a retry hint, never a 401, 403 or 429; what runs, runs on', async () => {
  expect((await call('ok', true)).status).toBe(200);
  const runners = Array.from({ length: 5 }, () => call('s:tokens=150,every=20ms', true));
  await upstream.ledger.until((rows) => rows.filter(({ tokensSent }) => tokensSent > 2).length >= 5);
  freeze();

  // The first are sent to the store and wait for it, the others find it away.
  for (let wave = 0; wave < 3; wave += 1) {
    const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => call('ok', n % 2 === 0)));
    replies.forEach(expectUnavailable);
  }
  const attempts = upstream.ledger.attempts.length;
  expect((await readiness(relay.port)).status).toBe(503);
  expect((await fetch(`http://127.0.0.1:${relay.port}/healthz`)).status).toBe(200);

  for (const reply of await Promise.all(runners))
    expect([reply.status, reply.tokens, reply.sawDone]).toEqual([200, 150, true]);

  // Once the log has not been seen for some seconds even a bad key is not judged any more.
  const unknown = createSecret('00000000');
  await until(
    () => call('ok', false, unknown),
    ({ status }) => status === 503,
    'the read model',
  );
  for (const key of [relay.key, unknown, 'nonsense']) expectUnavailable(await call('ok', false, key));
  const list = await fetch(`${relay.baseUrl}/models`, { headers: { authorization: `Bearer ${relay.key}` } });
  expect(list.status).toBe(503);
  expect(upstream.ledger.attempts).toHaveLength(attempts);

  thaw();
  const tries = await recovered();
  tries.slice(0, -1).forEach(expectUnavailable);
});

test('while the store keeps crashing, calls get 503 or no reply; service recovers by itself', async () => {
  for (let round = 0; round < 3; round += 1) {
    const runners = Array.from({ length: 10 }, (_, n) => call('s:tokens=20,every=10ms', n % 2 === 0));
    process.kill(postmaster(), 'SIGKILL');
    const replies = [...(await Promise.all(runners)), ...(await recovered())];
    for (const reply of replies) {
      if (reply.status === 200) expect(reply.finished).toBe(true);
      else expectUnavailable(reply);
    }
  }
});

test('afterwards every call that was recorded has its one ending, and the accounts agree', async () => {
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  expect(checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' })).toEqual({
    violations: [],
    unattributed: [],
  });
  for (const { status, requestId } of clients) {
    const settled = settledOf(events, requestId);
    if (status === 200) expect(settled).toMatchObject({ end_reason: 'completed' });
    else if (settled)
      expect(settled).toMatchObject({ end_reason: 'service_unavailable', status: 503, input_tokens: 0 });
  }
});
