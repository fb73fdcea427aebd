import path from 'node:path';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { restoreBackup } from '#db/backup/restore.ts';
import { makePartitions } from '../support/audit/partitioned-log.ts';
import { rowsOf } from '../support/audit/backup-fixture.ts';
import { chat } from '../support/client.ts';
import { type PeopledRelay, startPeopledRelay } from '../support/dashboard.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { filesWith, formsIn, formsOf, tablesWith } from '../support/everywhere.ts';
import { projectAll } from '../support/projections/projected.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** The erasure of an end user: nothing yields the value any more, and no figure and no proof changes. */

const VALUES = {
  user: 'erasure-canary-7f3a9c51@example.com',
  session: 'erasure-session-4b1d0e2f',
  tag: 'erasure:tag-91c3a7',
};
const PARTITION_EVENTS = 10;

let people: PeopledRelay;
let superuser: Client;
const lines: string[] = [];
beforeAll(async () => {
  people = await startPeopledRelay({
    onLine: (line) => lines.push(line),
    prepare: (made) => makePartitions(made, PARTITION_EVENTS, 40),
  });
  superuser = await database().superuser();
});
afterAll(async () => {
  await superuser?.end();
  await people?.relay[Symbol.asyncDispose]();
});

const database = (): TestDatabase => people.relay.store as TestDatabase;
const { json, text } = commandLine(() => ({
  DATABASE_URL: database().url,
  DAYBOOK_DATA: people.relay.dataDir,
  LOG_LEVEL: 'silent',
}));
const month = (): string => new Date().toISOString().slice(0, 7);

async function callFor(secret: string): Promise<void> {
  const { status } = await chat({
    port: people.relay.port,
    key: secret,
    headers: {
      'x-daybook-user': VALUES.user,
      'x-daybook-session': VALUES.session,
      'x-daybook-tags': VALUES.tag,
    },
    body: { model: 'daybook-demo', messages: [{ role: 'user', content: 'hi' }] },
  });
  expect(status).toBe(200);
}

/** All figures, as each kind of reader computes them, without the position of the log's head. */
async function figures(account: string): Promise<Record<string, unknown>> {
  await projectAll(database());
  const { rows } = await superuser.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
      where schemaname = 'projection' order by 1`,
  );
  const tables: Record<string, string[]> = {};
  for (const { name } of rows) tables[name] = await rowsOf(superuser, name);
  const { totals, rows: groups } = (
    await people.administrator.get<{ totals: unknown; rows: unknown }>(
      `/api/v1/usage?group_by=end_user,session,tag&account=${account}`,
    )
  ).body;
  const statement = await text('audit', 'statement', '--all', '--month', month(), '--csv');
  const cells = statement
    .trim()
    .split('\n')
    .map((line) => line.split(','));
  const last = cells[0]?.indexOf('last_position') ?? -1;
  expect(last).toBeGreaterThan(0);
  const replay = await json<Record<string, unknown>>('audit', 'replay');
  for (const name of ['moment', 'position', 'position_at', 'read']) delete replay[name];
  return {
    tables,
    statement: cells.map((row) => row.toSpliced(last, 1)),
    usage: { totals, groups },
    replay,
  };
}

/** What pages and APIs reply, as text. */
async function replies(account: string, pseudonym: string, secret: string): Promise<string> {
  const { administrator, ana, auditor } = people;
  const paths = [
    '/api/v1/requests',
    `/api/v1/requests?end_user=${pseudonym}&account=${account}`,
    '/api/v1/requests?format=csv',
    '/api/v1/usage?group_by=end_user',
    '/api/v1/usage?group_by=session&format=csv',
    '/api/v1/usage?group_by=tag',
    '/api/v1/events',
    '/api/v1/keys',
    '/api/v1/limits',
    '/api/v1/accounts',
    `/api/v1/accounts/${account}`,
    `/api/v1/accounts/${account}/attribution`,
    '/api/v1/alerts',
  ];
  const texts: string[] = [];
  for (const client of [administrator, ana, auditor])
    for (const each of paths) texts.push(JSON.stringify((await client.get(each)).body));
  for (const client of [administrator, ana]) {
    const wanted = [
      { kind: 'end_user', pseudonym },
      { kind: 'end_user', value: VALUES.user },
    ];
    texts.push(JSON.stringify(await client.post(`/api/v1/accounts/${account}/attribution`, { wanted })));
  }
  for (const route of ['requests', 'usage', 'models']) {
    const reply = await fetch(`${people.relay.baseUrl}/${route}`, {
      headers: { authorization: `Bearer ${secret}` },
    });
    texts.push(await reply.text());
  }
  return texts.join('\n');
}

test('a text is found in each encoding, also within another and compressed', () => {
  for (const before of ['', 'a', 'ab', 'abc'])
    expect(formsIn(Buffer.from(`${before}${VALUES.user}after`).toString('base64'), VALUES.user)).not.toEqual(
      [],
    );
  expect(formsIn(Buffer.from(VALUES.user).toString('hex').toUpperCase(), VALUES.user)).not.toEqual([]);
  expect(formsOf('a@b')).toContain('a%40b');
});

test('after an erasure nothing yields the value, and no figure and no proof changes', async () => {
  const { relay, ana } = people;
  const account = ana.me.account.id;
  const directory = (name: string): string => path.join(relay.dataDir, name);
  const { secret } = (await ana.post<{ secret: string }>('/api/v1/keys', { name: 'key' })).body;
  for (let call = 0; call < 12; call++) await callFor(secret);
  const log = await relay.waitFor(
    (events) => events.filter(({ event }) => event.type === 'request.settled').length === 12,
  );
  const accepted = log.find(({ event }) => event.type === 'request.accepted')?.event as {
    end_user: string;
    session: string;
    tags: string[];
  };
  const named = [
    { kind: 'end_user', pseudonym: accepted.end_user },
    { kind: 'session', pseudonym: accepted.session },
    { kind: 'tag', pseudonym: accepted.tags[0] as string },
  ];
  const lookUp = async (): Promise<(string | null)[]> => {
    const address = `/api/v1/accounts/${account}/attribution`;
    const { body } = await ana.post<{ data: { value: string | null }[] }>(address, { wanted: named });
    return body.data.map(({ value }) => value);
  };
  await expect.poll(lookUp).toEqual([VALUES.user, VALUES.session, VALUES.tag]);
  const sealed = (
    await superuser.query<{ hex: string }>(
      "select encode(sealed, 'hex') as hex from daybook.attribution_value where account = $1",
      [account],
    )
  ).rows.map(({ hex }) => hex);
  expect(sealed).toHaveLength(3);

  // A backup from before the erasure has neither the value nor its sealed form.
  await json('backup', '--to', directory('backup-before'));
  const before = await figures(account);

  for (const each of named)
    expect((await ana.post(`/api/v1/accounts/${account}/attribution/erase`, each)).status).toBe(200);
  expect(await lookUp()).toEqual([null, null, null]);
  expect(await figures(account)).toEqual(before);
  expect(await json('audit', 'verify')).toMatchObject({ findings: [] });

  // A call with the values changes figures, as it should, and stores nothing.
  await callFor(secret);
  await json('backup', '--to', directory('backup-after'));
  await projectAll(database());
  const archived = async (): Promise<string[]> =>
    (await json<{ archived: string[] }>('archive', 'run', '--dir', directory('archive'), '--keep', '1'))
      .archived;
  await expect.poll(archived).not.toEqual([]);
  expect(await json('audit', 'verify', '--archive-dir', directory('archive'))).toMatchObject({
    findings: [],
  });

  const texts = await replies(account, accepted.end_user, secret);
  expect(texts).toContain(accepted.end_user);
  expect(await tablesWith(superuser, ...Object.values(VALUES))).toEqual([]);
  for (const value of Object.values(VALUES)) {
    expect(await filesWith(relay.dataDir, value)).toEqual([]);
    expect(formsIn(texts.replaceAll(/"value":"[^"]*"/g, ''), value)).toEqual([]);
    expect(lines.filter((line) => formsIn(line, value).length > 0)).toEqual([]);
  }
  for (const hex of sealed) {
    const { rows } = await superuser.query('select from daybook.attribution_value where sealed = $1', [
      Buffer.from(hex, 'hex'),
    ]);
    expect(rows).toEqual([]);
    expect(await filesWith(relay.dataDir, hex)).toEqual([]);
  }
  // The search itself works: it finds the pseudonym in tables, backups and archives.
  expect(await tablesWith(superuser, accepted.end_user)).toEqual(
    expect.arrayContaining([
      'daybook.attribution_erased',
      expect.stringMatching(/^daybook.log_/),
      expect.stringMatching(/^projection.request_/),
    ]),
  );
  expect((await filesWith(directory('archive'), accepted.end_user)).length).toBeGreaterThan(0);
  expect((await filesWith(directory('backup-before'), accepted.end_user)).length).toBeGreaterThan(0);

  // With the master key, the backup from before yields no value either.
  await using restored = await createEmptyDatabase();
  await restoreBackup({ store: restored, directory: directory('backup-before'), evenDamaged: false });
  const client = await restored.superuser();
  expect(await rowsOf(client, 'daybook.attribution_value')).toEqual([]);
  expect(await rowsOf(client, 'daybook.attribution_key')).toHaveLength(1);
  await client.end();
});
