import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { unsealSinkConfig } from '#db/spend/seal-sink-config.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { createDatabase, openSession, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** `daybook sink add kafka`, without a broker. */

let database: TestDatabase;
let directory: string;
const { daybook, json } = commandLine(() => ({ DATABASE_URL: database.url, DAYBOOK_DATA: directory }));
const add = ['sink', 'add', 'kafka', 'billing'];
const cluster = ['--brokers', 'kafka-1:9093, [2001:db8::1]:9093', '--topic', 'spend'];

beforeAll(async () => {
  database = await createDatabase();
  directory = await makeTestDirectory();
});
afterAll(async () => {
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

test('the cluster, its certificates and its password are sealed with the sink', async () => {
  const [password, ca] = [path.join(directory, 'password.txt'), path.join(directory, 'ca.pem')];
  await writeFile(password, 'canary password\n');
  await writeFile(ca, 'CERTIFICATES');
  const login = ['--sasl', 'scram-sha-512', '--username', 'daybook', '--password-file', password];
  const { id } = await json<{ id: string }>(...add, ...cluster, '--tls', '--ca-file', ca, ...login);

  const client = await openSession(database.config('owner'));
  const { rows } = await client.query<{ sealed_config: Buffer }>('select sealed_config from daybook.sink');
  const pepper = await loadPepper(client, { DAYBOOK_DATA: directory, DAYBOOK_PEPPER_FILE: undefined });
  await closeClient(client);
  const sealed = rows[0]?.sealed_config as Buffer;
  expect(sealed.includes('canary password')).toBe(false);
  expect(unsealSinkConfig(pepper, id, sealed)).toEqual({
    kind: 'kafka',
    brokers: ['kafka-1:9093', '[2001:db8::1]:9093'],
    topic: 'spend',
    tls: true,
    ca: 'CERTIFICATES',
    sasl: { mechanism: 'scram-sha-512', username: 'daybook', password: 'canary password' },
    allow_private: false,
  });
});

test.each([
  ['a broker without a port', ['--brokers', 'kafka-1', '--topic', 'spend'], 'host:port'],
  ['a broker that is an address of a page', ['--brokers', 'https://k:1', '--topic', 'x'], 'host:port'],
  ['a topic that Kafka refuses', ['--brokers', 'kafka-1:9092', '--topic', 'a b'], 'topic'],
  ['certificates without TLS', [...cluster, '--ca-file', 'ca.pem'], '--tls'],
  ['a user name without a mechanism', [...cluster, '--username', 'x'], '--sasl'],
  ['an unknown mechanism', [...cluster, '--tls', '--sasl', 'gssapi'], 'scram-sha-256'],
  ['a mechanism without a password', [...cluster, '--sasl', 'scram-sha-256'], '--password-file'],
  [
    'a password in clear text',
    [...cluster, '--sasl', 'plain', '--username', 'x', '--password-file', 'x'],
    '--tls',
  ],
])('%s is refused with its remedy', async (_, options, remedy) => {
  const { code, stderr } = await daybook(...add, ...options);
  expect(code).not.toBe(0);
  expect(stderr).toContain(remedy);
});
