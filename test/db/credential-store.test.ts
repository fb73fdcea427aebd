import { copyFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { closeClient, connectAs } from '#db/postgres/connect.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { PAGE_ROWS, readPage } from '#db/log/read.ts';
import { isModelEvent, isUpstreamEvent } from '#db/events/subjects.ts';
import { UpstreamTerms } from '#db/events/upstream-events.ts';
import { ControlWriter } from '#server/control/control-writer.ts';
import { ConflictError } from '#db/log/append.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { rekey } from '#server/secrets/master-key.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';
import { CredentialStore } from '#server/upstreams/credential-store.ts';
import { UpstreamDirectory } from '#server/upstreams/directory.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/** The secrets of upstreams in the memory of a server that follows the log. */

const SECRET = 'sk-canary-credential-7f3a9c51be02';
const terms = UpstreamTerms.parse({ provider: 'openai', base_url: 'https://api.example.com/v1' });

let directory: string;
let database: TestDatabase;
let controlWriter: ControlWriter;
let config: ConstructorParameters<typeof UpstreamControl>[2];
let places = 0;
beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  controlWriter = new ControlWriter(database, pino({ level: 'silent' }));
});
beforeEach(() => {
  config = {
    upstreams: [],
    DAYBOOK_DATA: path.join(directory, `data-${++places}`),
    DAYBOOK_MASTER_KEY_FILE: undefined,
  };
});
afterAll(async () => {
  await controlWriter?.close();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

async function change<T>(work: (upstreams: UpstreamControl) => Promise<T>): Promise<T> {
  const done = await controlWriter.change('member/Abcdefgh', (control, client) =>
    work(new UpstreamControl(control, client, config)),
  );
  if (done instanceof ApiError) throw done;
  return done;
}

/** A server's view, which follows the log on request. */
function serve() {
  const upstreams = new UpstreamDirectory();
  const lines: string[] = [];
  const store = new CredentialStore({
    store: database,
    directory: upstreams,
    file: masterKeyFile(config),
    log: pino({ level: 'trace' }, { write: (line) => lines.push(line) }),
  });
  let position = 0;
  async function follow(): Promise<void> {
    const client = await connectAs(database, 'relay');
    for (;;) {
      const page = await readPage(client, position, 'control');
      for (const { event, at, position: own, version } of page) {
        position = own;
        if (version !== null && (isUpstreamEvent(event) || isModelEvent(event)))
          upstreams.apply({ event, at, position, version });
      }
      if (page.length < PAGE_ROWS) break;
    }
    await closeClient(client);
  }
  return { store, upstreams, lines, follow, [Symbol.asyncDispose]: () => store.close() };
}

const withRow = async <T>(statement: string, ...values: unknown[]): Promise<T[]> => {
  const client = await database.superuser();
  try {
    return (await client.query(statement, values)).rows as T[];
  } finally {
    await client.end();
  }
};

test('a billing credential is never decrypted by a server, and is deleted with its upstream', async () => {
  const name = `billed-${places}`;
  await change((upstreams) => upstreams.addUpstream(name, terms));
  const { id } = await change((upstreams) =>
    upstreams.addCredential(name, { label: 'billing', secret: SECRET, purpose: 'billing' }),
  );
  await using server = serve();
  await server.follow();
  await server.store.start();
  expect(server.store.secret(id)).toBeUndefined();
  expect(server.store.openOf(server.upstreams.upstream(name) ?? { credentials: [] })).toEqual([]);
  expect(await withRow('select id from daybook.credential')).toEqual([{ id }]);
  await change((upstreams) => upstreams.removeUpstream(name));
  expect(await withRow('select id from daybook.credential')).toEqual([]);
  expect(server.lines).toEqual([]);
});

test('a server loads the credentials at its start, and follows later additions and removals', async () => {
  const name = `one-${places}`;
  await change((upstreams) => upstreams.addUpstream(name, terms));
  const first = await change((upstreams) =>
    upstreams.addCredential(name, { label: 'first', secret: SECRET }),
  );
  await using server = serve();
  await server.follow();
  await server.store.start();
  expect(server.store.secret(first.id)).toBe(SECRET);

  let changes = 0;
  server.store.onChange(() => changes++);
  const second = await change((upstreams) =>
    upstreams.addCredential(name, { label: 'second', secret: `${SECRET}-2` }),
  );
  await server.follow();
  await server.store.refresh();
  expect(server.store.openOf(server.upstreams.upstream(name) ?? { credentials: [] })).toEqual([
    { id: first.id, secret: SECRET },
    { id: second.id, secret: `${SECRET}-2` },
  ]);
  expect(changes).toBe(1);

  await change((upstreams) => upstreams.removeCredential(name, first.id));
  await server.follow();
  expect(server.store.secret(first.id)).toBeUndefined();
  await change((upstreams) => upstreams.removeUpstream(name));
  await server.follow();
  await server.store.refresh();
  expect(server.store.secret(second.id)).toBeUndefined();
  expect(changes).toBe(3);
  expect(await withRow('select id from daybook.credential')).toEqual([]);
  expect(server.lines).toEqual([]);
});

test('rotating the master key does not disturb running servers, which open new credentials', async () => {
  const name = `two-${places}`;
  await change((upstreams) => upstreams.addUpstream(name, terms));
  const first = await change((upstreams) =>
    upstreams.addCredential(name, { label: 'first', secret: SECRET }),
  );
  await using server = serve();
  await server.follow();
  await server.store.start();
  const relay = await connectAs(database, 'relay');
  await rekey(relay, masterKeyFile(config), false);
  await closeClient(relay);
  const second = await change((upstreams) =>
    upstreams.addCredential(name, { label: 'second', secret: `${SECRET}-2` }),
  );
  await server.follow();
  await server.store.refresh();
  expect([server.store.secret(first.id), server.store.secret(second.id), server.lines]).toEqual([
    SECRET,
    `${SECRET}-2`,
    [],
  ]);
  await change((upstreams) => upstreams.removeUpstream(name));
});

test('a credential that cannot be decrypted is logged once and not used, until it can be', async () => {
  const name = `three-${places}`;
  await change((upstreams) => upstreams.addUpstream(name, terms));
  const [valid, damaged, lost] = await Promise.all(
    ['valid', 'damaged', 'lost'].map((label) =>
      change((upstreams) => upstreams.addCredential(name, { label, secret: `${SECRET}-${label}` })),
    ),
  );
  const ids = [valid, damaged, lost].map((each) => each?.id ?? '');
  await withRow('update daybook.credential set sealed_secret = fingerprint where id = $1', ids[1]);
  await withRow('delete from daybook.credential where id = $1', ids[2]);
  await using server = serve();
  await server.follow();
  const file = masterKeyFile(config);
  await rename(file, `${file}.kept`);
  await server.store.start();
  expect(ids.map((id) => server.store.secret(id))).toEqual([undefined, undefined, undefined]);
  expect(server.lines.join('')).toContain('which is not in DAYBOOK_MASTER_KEY_FILE');

  await copyFile(`${file}.kept`, file);
  server.lines.length = 0;
  await server.store.refresh();
  expect(ids.map((id) => server.store.secret(id))).toEqual([`${SECRET}-valid`, undefined, undefined]);
  expect(
    server.lines.map((line) => JSON.parse(line) as { credential: string; upstream: string; msg: string }),
  ).toEqual([
    expect.objectContaining({
      level: 50,
      upstream: name,
      credential: ids[1],
      msg: expect.stringContaining('its row was modified') as string,
    }),
  ]);
  await server.store.refresh();
  expect(server.lines).toHaveLength(1);
  for (const line of server.lines) expect(line).not.toContain(SECRET);
  await rm(`${file}.kept`);
  await change((upstreams) => upstreams.removeUpstream(name));
});

test('a credential and its event are committed together or not at all', async () => {
  const name = `four-${places}`;
  await change((upstreams) => upstreams.addUpstream(name, terms));
  const together = {
    appends: [
      {
        event: {
          type: 'upstream.credential_added' as const,
          upstream: name,
          credential: 'Cred0001',
          label: 'x',
          last4: '',
          actor: 'test',
        },
        version: 7,
      },
    ],
    seal: [{ id: 'Cred0001', upstream: name, secret: SECRET }],
    remove: [],
  };
  await expect(change((upstreams) => upstreams.commit(together))).rejects.toThrow(ConflictError);
  expect(await withRow('select id from daybook.credential')).toEqual([]);
  const { id } = await change((upstreams) =>
    upstreams.addCredential(name, { label: 'first', secret: SECRET }),
  );
  const removal = {
    appends: [
      {
        event: {
          type: 'upstream.credential_removed' as const,
          upstream: name,
          credential: id,
          actor: 'test',
        },
        version: 7,
      },
    ],
    seal: [],
    remove: [id],
  };
  await expect(change((upstreams) => upstreams.commit(removal))).rejects.toThrow(ConflictError);
  expect(await withRow('select id from daybook.credential')).toEqual([{ id }]);
  await change((upstreams) => upstreams.removeUpstream(name));
});

test('two concurrent additions both succeed, and the master key is created once', async () => {
  const name = `five-${places}`;
  await change((upstreams) => upstreams.addUpstream(name, terms));
  const other = new ControlWriter(database, pino({ level: 'silent' }));
  const added = await Promise.all(
    [controlWriter, other].flatMap((from, at) =>
      [1, 2].map((each) =>
        from.change('member/Abcdefgh', (control, client) =>
          new UpstreamControl(control, client, config).addCredential(name, {
            label: `${at}-${each}`,
            secret: SECRET,
          }),
        ),
      ),
    ),
  );
  await other.close();
  expect(added.filter((each) => each instanceof ApiError)).toEqual([]);
  await using server = serve();
  await server.follow();
  await server.store.start();
  expect(server.store.openOf(server.upstreams.upstream(name) ?? { credentials: [] })).toHaveLength(4);
  await change((upstreams) => upstreams.removeUpstream(name));
});
