import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '#server/cli/program.ts';
import type { Restriction } from '#server/decide/key.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { appendNewer, NEWER_TYPES } from '../support/log/newer-event.ts';
import { changeControl, startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** A server and commands of this version, beside a newer one that writes events which this one lacks. */

/** A second model that the upstream serves, so that only an event can end its calls. */
const SECOND_MODEL = 's:tokens=2';

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [{ baseUrl: upstream.baseUrl, models: ['ok', SECOND_MODEL] }] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const call = (key: string, model = 'ok'): Promise<ChatReply> =>
  chat({ port: relay.port, key, body: { model, messages: [] } });
const codeOf = (reply: ChatReply): string | null =>
  (JSON.parse(String(reply.body)) as { error?: { code: string } }).error?.code ?? null;
const control: typeof relay.control = (use) => changeControl(relay.store, relay.dataDir, use);

const UNCHANGED: Restriction = { set: {}, drop: [], clear: false, expiresAt: undefined, windows: 'keep' };

/** An account with a key, which the server serves. */
async function served(name: string): Promise<{ account: string; key: string; secret: string }> {
  const { account, key } = await control(async (commands, pepper) => {
    const created = await commands.createAccount(name);
    return {
      account: created.id,
      key: await commands.createKey(pepper, { account: name, name, expiresAt: null }),
    };
  });
  await until(
    () => call(key.secret),
    ({ status }) => status === 200,
    'the key',
  );
  return { account, key: key.id, secret: key.secret };
}

/** Resolves when the server rejects a key's calls because of an event that it can't apply. */
async function outdated(secret: string, model?: string): Promise<void> {
  const reply = await until(
    () => call(secret, model),
    ({ status }) => status !== 200,
    'the rejection',
  );
  expect([reply.status, codeOf(reply), reply.header('retry-after')]).toEqual([503, 'relay_outdated', '5']);
}

const daybook = (...args: string[]): Promise<number> =>
  runProgram(args, {
    env: { DATABASE_URL: (relay.store as { url?: string }).url, DAYBOOK_DATA: relay.dataDir },
    out: () => undefined,
    err: () => undefined,
  });

describe('an event that this version does not know', () => {
  test('rejects the calls of its key alone, if it must not be skipped', async () => {
    const { key, account, secret } = await served('newer-key');
    await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: `key/${key}`, account, key });
    await outdated(secret);
    expect((await call(relay.key)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${relay.port}/readyz`)).status).toBe(200);
  });

  test('rejects nothing, if it may be skipped', async () => {
    const { key, account, secret } = await served('newer-skipped');
    await appendNewer(relay.store, { type: NEWER_TYPES.toSkip, stream: `key/${key}`, account, key });
    await appendNewer(relay.store, { type: NEWER_TYPES.toSkip, stream: 'novelty/one' });
    // A later change of the key is applied, so the events before it were passed.
    await control((commands) => commands.restrictKey(key, { ...UNCHANGED, set: { models: [SECOND_MODEL] } }));
    await until(
      () => call(secret),
      ({ status }) => status === 403,
      'the restriction',
    );
  });

  test('rejects the calls of all keys of its account or plan', async () => {
    const { account, secret } = await served('newer-account');
    await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: `account/${account}`, account });
    await outdated(secret);
    const onPlan = await served('newer-plan');
    await control(async (commands) => {
      await commands.definePlan('newer', {}, 'keep');
      await commands.setPlan({ id: onPlan.account }, 'newer', 'keep');
    });
    await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: 'plan/newer' });
    await outdated(onPlan.secret);
  });

  test('of a new kind of subject rejects the calls of the account that it names', async () => {
    const { account, secret } = await served('newer-kind');
    await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: 'novelty/two', account });
    await outdated(secret);
    expect((await call(relay.key)).status).toBe(200);
  });

  test('rejects the calls of its model', async () => {
    expect((await call(relay.key, SECOND_MODEL)).status).toBe(200);
    await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: `dispatch/${SECOND_MODEL}` });
    await outdated(relay.key, SECOND_MODEL);
    expect((await call(relay.key)).status).toBe(200);
  });
});

describe('a command of this version', () => {
  test('revokes a key and suspends an account that a newer version has changed', async () => {
    const { key, account, secret } = await served('newer-revoked');
    await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: `key/${key}`, account, key });
    await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: `account/${account}`, account });
    await outdated(secret);
    expect(await daybook('key', 'revoke', key)).toBe(0);
    expect(await daybook('account', 'suspend', 'newer-revoked')).toBe(0);
    const client = await connectAs(relay.store, 'auditor');
    const { rows } = await client.query<{ type: number; version: number }>(
      'select type, version from daybook.control_event where stream in ($1, $2) order by position',
      [`key/${key}`, `account/${account}`],
    );
    await client.end();
    expect(rows.map(({ type, version }) => [type, version])).toEqual([
      [1, 1],
      [10, 1],
      [NEWER_TYPES.notToSkip, 2],
      [NEWER_TYPES.notToSkip, 2],
      [12, 3],
      [2, 3],
    ]);
  });

  test('changes nothing else of a key, and names the event', async () => {
    const { key, account } = await served('newer-unchanged');
    const position = await appendNewer(relay.store, {
      type: NEWER_TYPES.notToSkip,
      stream: `key/${key}`,
      account,
      key,
    });
    await expect(control((commands) => commands.restrictKey(key, UNCHANGED))).rejects.toThrow(
      `The key ${key} was changed by a newer version (event type 999 at position ${position})`,
    );
  });
});

test('an event of a newer version about everything makes the server unready', async () => {
  await appendNewer(relay.store, { type: NEWER_TYPES.notToSkip, stream: 'novelty/three' });
  await outdated(relay.key);
  expect((await fetch(`http://127.0.0.1:${relay.port}/readyz`)).status).toBe(503);
});
