import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Manifest } from '#db/backup/manifest.ts';
import { closeClient, connectAs } from '#db/postgres/connect.ts';
import { readConfig } from '#server/process/config.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';
import { chat, type ChatReply } from '../../support/client.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { createEmptyDatabase, type TestDatabase } from '../../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { errorCodeOf } from '../../support/faults.ts';
import { readInstances } from '../../support/instances.ts';
import { startRelay, type TestRelay, upstreamsVariable } from '../../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/upstream/upstream.ts';

/** The drill: a busy system is backed up online, and a new one is restored from the backup. */

const QUOTA = 10;
const SECRET = 'sk-canary-credential-7f3a9c51be02';
const HELLO = [{ role: 'user', content: 'Hello' }];

let upstream: ScriptedUpstream;
let relay: TestRelay;
let elsewhere: TestDatabase;
let directory: string;
beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
  elsewhere = await createEmptyDatabase();
  directory = await makeTestDirectory();
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
  await elsewhere?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

test('backup drill: a restored system has working keys, exact limits and verified projections', async () => {
  const masterKey = path.join(directory, 'master-key');
  const here = commandLine(() => ({
    DAYBOOK_DATA: relay.dataDir,
    DATABASE_URL: (relay.store as TestDatabase).url,
    DAYBOOK_MASTER_KEY_FILE: masterKey,
  }));
  const dataDir = path.join(directory, 'data');
  const there = commandLine(() => ({
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: elsewhere.url,
    DAYBOOK_MASTER_KEY_FILE: path.join(directory, 'master-key-there'),
  }));
  const backup = path.join(directory, 'backup');

  await relay.control(async (control) => {
    await control.definePlan(
      'ten',
      { quotas: [{ meter: 'requests', window: 'month', limit: QUOTA, enforcement: 'hard' }] },
      'keep',
    );
    await control.setPlan(relay.account, 'ten', 'keep');
  });
  const revoked = await relay.createKey();
  await relay.control((control) => control.revokeKey(revoked.id));
  const call = (port: number, key: string, script = 's:tokens=3'): Promise<ChatReply> =>
    chat({ port, key, body: { model: script, messages: HELLO, stream: true } });
  for (let turn = 0; turn < 4; turn++) expect((await call(relay.port, relay.key)).status).toBe(200);
  const running = new AbortController();
  const left = chat({
    port: relay.port,
    key: relay.key,
    body: { model: 's:tokens=3,end=hang@2', messages: HELLO, stream: true },
    signal: running.signal,
  });
  await relay.waitFor(
    (events) =>
      events.filter(({ event }) => event.type === 'request.accepted').length === 5 &&
      events.filter(({ event }) => event.type === 'request.settled').length === 4,
  );

  await writeFile(path.join(directory, 'secret'), SECRET);
  await here.json('upstream', 'add', 'second', '--base-url', 'https://api.example.com/v1');
  const credential = await here.json<{ id: string }>(
    'credential',
    'add',
    'second',
    '--label',
    'main',
    '--file',
    path.join(directory, 'secret'),
  );
  const taken = await here.json<Manifest>('backup', '--to', backup);
  expect(taken).toMatchObject({ damage: null });
  expect(await here.text('backup', 'verify', backup)).toContain('Verified');
  running.abort();
  await left;

  expect(await there.json('restore', '--from', backup)).toMatchObject({
    head: taken.head,
    abandoned: 1,
    undelivered: 0,
    projections: 'rebuilt',
    parked: 0,
    differing: [],
    restore_gap: null,
    pepper: 'missing',
    master_key: 'missing',
  });
  const restored = await connectAs(elsewhere, 'relay');
  expect(await openCredentials(restored, readKeys(masterKey))).toEqual({
    secrets: new Map([[credential.id, SECRET]]),
    unopened: [],
  });
  expect((await openCredentials(restored, null)).unopened).toMatchObject([
    { id: credential.id, upstream: 'second' },
  ]);
  await closeClient(restored);
  expect((await readInstances(elsewhere)).every(({ isDead, isClosed }) => isDead && isClosed)).toBe(true);
  await there.text('projections', 'check');
  await mkdir(dataDir);
  await copyFile(path.join(relay.dataDir, 'pepper'), path.join(dataDir, 'pepper'));

  let server: RunningServer | null = null;
  try {
    server = await startServer(
      readConfig({
        PORT: '0',
        DAYBOOK_DATA: dataDir,
        DATABASE_URL: elsewhere.url,
        DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
      }),
      createLogger('silent'),
    );
    const port = Number(new URL(server.baseUrl).port);
    expect(server.firstKey).toBeNull();
    expect([(await call(port, revoked.secret)).status, (await call(port, relay.key)).status]).toEqual([
      401, 200,
    ]);
    // Four were settled before, one was abandoned and charged, and one is new.
    for (let turn = 0; turn < QUOTA - 6; turn++) expect((await call(port, relay.key)).status).toBe(200);
    const refused = await call(port, relay.key);
    expect([refused.status, errorCodeOf(refused)]).toEqual([429, 'insufficient_quota']);
  } finally {
    await server?.stop();
  }
});
