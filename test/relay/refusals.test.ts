import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSecret } from '#server/secrets/key-secret.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { openRequests } from '../support/faults.ts';
import { expectRefusal, rawRequest, readReplies } from '../support/wire/raw-http.ts';
import { changeControl, footprint, startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [{ baseUrl: upstream.baseUrl, models: ['ok', 's:*'] }] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const call = (key: string, model = 'ok'): Promise<ChatReply> =>
  chat({ port: relay.port, key, body: { model, messages: [], user: randomUUID() } });

const models = (key: string): Promise<Response> =>
  fetch(`${relay.baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } });

/** Calls with a key that is to be refused, on each route; nothing may be forwarded or recorded. */
async function refused(key: string, status: number, code: string): Promise<void> {
  const before = await footprint(relay, upstream);
  const reply = await call(key);
  expectRefusal({ status: reply.status ?? 0, headers: reply.headers, body: reply.body }, status, code);
  const list = await models(key);
  expect([list.status, ((await list.json()) as { error: { code: string } }).error.code]).toEqual([
    status,
    code,
  ]);
  expect(await footprint(relay, upstream)).toEqual(before);
}

/** Calls with a key that is to be accepted. */
async function accepted(key: string): Promise<void> {
  expect([(await call(key)).status, (await models(key)).status]).toEqual([200, 200]);
}

test("a suspended account's keys are a 403 until it is reinstated", async () => {
  await relay.createAccount('anna');
  const { secret } = await relay.createKey({ account: 'anna' });
  await accepted(secret);
  await relay.control((control) => control.suspendAccount('anna'));
  await refused(secret, 403, 'account_disabled');
  await accepted(relay.key);
  await relay.control((control) => control.reinstateAccount('anna'));
  await accepted(secret);
});

test("who does not hold a suspended account's key is not reported that it is suspended", async () => {
  await relay.createAccount('berta');
  const { id } = await relay.createKey({ account: 'berta' });
  await relay.control((control) => control.suspendAccount('berta'));
  await refused(createSecret(id), 401, 'invalid_api_key');
});

test('a revoked key is a 401 for valid, and says so to its holder only', async () => {
  const { id, secret } = await relay.createKey();
  await accepted(secret);
  await relay.control((control) => control.revokeKey(id));
  await refused(secret, 401, 'api_key_revoked');
  await refused(createSecret(id), 401, 'invalid_api_key');
});

test('a revocation reaches a running server by itself', async () => {
  const { id, secret } = await relay.createKey();
  await accepted(secret);
  await changeControl(relay.store, relay.dataDir, (control) => control.revokeKey(id));
  await until(
    () => call(secret),
    ({ status }) => status === 401,
    'the revocation',
  );
  await refused(secret, 401, 'api_key_revoked');
});

test('a new key, and a suspension, reach a running server by themselves', async () => {
  const { secret } = await changeControl(relay.store, relay.dataDir, async (control, pepper) => {
    await control.createAccount('carla');
    return control.createKey(pepper, { account: 'carla', name: 'new', expiresAt: null });
  });
  await until(
    () => call(secret),
    ({ status }) => status === 200,
    'the new key',
  );
  await changeControl(relay.store, relay.dataDir, (control) => control.suspendAccount('carla'));
  await until(
    () => call(secret),
    ({ status }) => status === 403,
    'the suspension',
  );
});

test('a key ends at its expiry and not before', async () => {
  const expiresAt = new Date(Date.now() + 3_000);
  const { secret } = await relay.createKey({ expiresAt });
  const replies: { at: number; status: number | null }[] = [];
  await until(
    async () => {
      const sentAt = Date.now();
      const { status } = await call(secret);
      replies.push({ at: status === 401 ? Date.now() : sentAt, status });
      return status;
    },
    (status) => status === 401,
    'the expiry',
  );
  await refused(secret, 401, 'api_key_expired');
  const early = replies.filter(({ at, status }) => status === 401 && at < expiresAt.getTime() - 100);
  expect([replies[0]?.status, early]).toEqual([200, []]);
});

test("a rotated key's old secret is a 401 at once, the new one valid", async () => {
  const { id, secret: old } = await relay.createKey();
  const { secret } = await relay.control((control, pepper) => control.rotateKey(pepper, id, 0));
  await refused(old, 401, 'invalid_api_key');
  await accepted(secret);
});

test('with an overlap both secrets are valid until it ends, and only one after', async () => {
  const { id, secret: old } = await relay.createKey();
  const { secret } = await relay.control((control, pepper) => control.rotateKey(pepper, id, 2_500));
  await accepted(old);
  await accepted(secret);
  await until(
    () => call(old),
    ({ status }) => status === 401,
    "the overlap's end",
  );
  await refused(old, 401, 'api_key_revoked');
  await accepted(secret);
});

test('a second rotation ends the first secret, and a revocation all of them', async () => {
  const { id, secret: first } = await relay.createKey();
  const rotate = () => relay.control((control, pepper) => control.rotateKey(pepper, id, 60_000));
  const { secret: second } = await rotate();
  const { secret: third } = await rotate();
  await refused(first, 401, 'invalid_api_key');
  await accepted(second);
  await accepted(third);
  await relay.control((control) => control.revokeKey(id));
  await refused(third, 401, 'api_key_revoked');
  // Of the overlap nothing is kept, so its holder is reported no more than a stranger.
  await refused(second, 401, 'invalid_api_key');
});

test('a model that no one serves is a 404 that names the field', async () => {
  const before = await footprint(relay, upstream);
  const reply = await call(relay.key, 'gpt-unheard-of');
  const error = expectRefusal(
    { status: reply.status ?? 0, headers: reply.headers, body: reply.body },
    404,
    'model_not_found',
  );
  expect([error.param, error.type]).toEqual(['model', 'invalid_request_error']);
  expect(await footprint(relay, upstream)).toEqual(before);
});

test('the log knows every change of a key or an account by who made it, and no secret', async () => {
  const events = await relay.readLog();
  const changes = events.filter(({ stream }) => stream !== null);
  const kinds = new Set(changes.map(({ event }) => event.type));
  expect(kinds).toEqual(
    new Set([
      'account.registered',
      'account.suspended',
      'account.reinstated',
      'key.created',
      'key.rotated',
      'key.revoked',
    ]),
  );
  for (const { event } of changes)
    expect(event).toHaveProperty('actor', expect.stringMatching(/^(test|first-start)$/));
  expect(JSON.stringify(events)).not.toMatch(/dbk_/);
});

test('a server that is asked to stop lets replies end and serves their connections', async () => {
  await using stopping = await startRelay({ upstreams: [upstream] });
  const user = randomUUID();
  const body = JSON.stringify({ model: 's:tokens=40,every=100ms', messages: [], stream: true, user });
  const bytes = await new Promise<Buffer>((resolve) => {
    const parts: Buffer[] = [];
    const socket = connect(stopping.port, '127.0.0.1', () =>
      socket.write(rawRequest([`Authorization: Bearer ${stopping.key}`], { body })),
    );
    socket.on('data', (part: Buffer) => {
      const isFirst = !Buffer.concat(parts).includes('tok3') && part.includes('tok3');
      parts.push(part);
      if (!isFirst) return;
      void stopping.stop();
      socket.write(rawRequest([`Authorization: Bearer ${stopping.key}`]));
    });
    socket.on('close', () => resolve(Buffer.concat(parts)));
  });
  const [reply, next] = readReplies(bytes, ['POST', 'POST']);
  expect(reply?.body.toString()).toMatch(/tok39 [^]*data: \[DONE\]\n\n$/);
  expect([next?.status, next?.header('connection')]).toEqual([200, 'close']);
  await stopping.stop();
  await expect(fetch(stopping.baseUrl)).rejects.toThrow();
  const recorded = (await stopping.readLog()).filter(({ event }) => event.type === 'request.accepted');
  expect(recorded).toHaveLength(2);
});

test('everything that was recorded in this file has one ending each', async () => {
  await relay.waitFor((log) => openRequests(log).length === 0);
});
