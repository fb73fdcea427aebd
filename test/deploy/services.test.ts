import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chat } from '../support/client.ts';
import { type Compose, readCompose, serviceOf } from '../support/deploy/compose.ts';
import { type ComposePostgres, startComposePostgres } from '../support/deploy/compose-postgres.ts';
import {
  checkHealth,
  makeApp,
  type Running,
  runService,
  type Stage,
  startService,
  writeSecrets,
} from '../support/deploy/containers.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { until } from '../support/relay.ts';
import { refusedPort } from '../support/upstream/upstream.ts';

/**
 * docker-compose.yml's services, each command as it stands there, on a PostgreSQL that was set up
 * and started as the file says: migrate, two servers, two workers. No container engine is needed,
 * and so what an engine does (networks, limits, users, images) is not shown here.
 */

const compose: Compose = readCompose();
let directory: string;
let postgres: ComposePostgres;
let superuser: Client;
/** Where migrate and the workers run, and each of the two servers with the port that it has for itself. */
let stage: Stage;
let stages: [Stage, Stage];
let ports: [number, number];
let servers: Running[] = [];
let workers: Running[] = [];
/** The services' address of the database. */
let serviceUrl: string;

const CANARY = randomBytes(16).toString('hex');

beforeAll(async () => {
  directory = await makeTestDirectory();
  chmodSync(directory, 0o711);
  const [ownerPassword, servicePassword] = [`owner-${CANARY}`, `service-${CANARY}`];
  postgres = await startComposePostgres(directory, serviceOf(compose, 'postgres'), ownerPassword);
  superuser = postgres.superuser();
  await superuser.connect();
  serviceUrl = `postgres://daybook_service:${servicePassword}@127.0.0.1:${postgres.port}/daybook`;
  const secrets = writeSecrets(directory, {
    postgres_password: ownerPassword,
    owner_url: `postgres://daybook:${ownerPassword}@127.0.0.1:${postgres.port}/daybook`,
    service_url: serviceUrl,
    pepper: randomBytes(32).toString('hex'),
    master_key: randomBytes(32).toString('hex'),
    signing_key: generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }),
    upstreams: '[]',
  });
  const app = await makeApp(directory);
  ports = [await refusedPort(), await refusedPort()];
  stage = {
    compose,
    app,
    mapping: { '/run/secrets': secrets, '/published': path.join(directory, 'published') },
  };
  const alone = (port: number): Stage => ({
    ...stage,
    mapping: { ...stage.mapping, '0.0.0.0': '127.0.0.1', '4000': String(port) },
  });
  stages = [alone(ports[0]), alone(ports[1])];
});

afterAll(async () => {
  await Promise.all([...servers, ...workers].map((each) => each.kill()));
  await superuser.end();
  await postgres.stop();
  await removeTestDirectory(directory);
});

test('migrate prepares the database, and again and again changes nothing', async () => {
  const first = await runService(stage, 'migrate');
  expect(first).toMatchObject({
    code: 0,
    output: expect.stringMatching(
      /^Migrated: 0000_baseline\.\nServers and workers may come as daybook_service\.\n$/s,
    ),
  });
  const more = await Promise.all([runService(stage, 'migrate'), runService(stage, 'migrate')]);
  for (const again of more)
    expect(again).toEqual({
      code: 0,
      output: 'Nothing to migrate.\nServers and workers may come as daybook_service.\n',
    });
});

test('what is not up is not healthy', async () => {
  expect(await checkHealth(stages[0], 'server')).toMatchObject({ code: 1 });
  expect(await checkHealth(stage, 'worker')).toMatchObject({
    code: 1,
    output: expect.stringContaining('no worker of this host'),
  });
});

test('two servers and two workers, begun at the same moment, all come up, and make no secret', async () => {
  servers = stages.map((each) => startService(each, 'server'));
  workers = [startService(stage, 'worker'), startService(stage, 'worker')];
  await Promise.all(servers.map((server) => server.said(/Base URL for clients/)));
  for (const { output } of servers) {
    expect(output()).toContain('daybook setup-link');
    expect(output()).not.toMatch(/dbk_|\/setup#/);
  }
  for (const each of stages) expect(await checkHealth(each, 'server')).toMatchObject({ code: 0 });
  const healthy = (): Promise<number | null> => checkHealth(stage, 'worker').then(({ code }) => code);
  await until(healthy, (code) => code === 0, "the workers' health");
  const kinds = await until(living, (each) => each.length === 4, 'four instances');
  expect(kinds).toEqual(['server', 'server', 'worker', 'worker']);
});

test('none of them has the owner as its login', async () => {
  const { rows } = await superuser.query<{ login: string }>(
    `select distinct usename as login from pg_stat_activity
      where backend_type = 'client backend' and application_name like 'daybook-%'
        and usename is not null`, // A connection that PostgreSQL still authenticates has none.
  );
  expect(rows.map(({ login }) => login)).toEqual(['daybook_service']);
});

test('a quota holds over both servers, and the command line works in one of them', async () => {
  // One command in a service shows that it has all that commands need; the others need no process.
  const commands = commandLine(() => ({ DATABASE_URL: serviceUrl }));
  await commands.text('account', 'create', 'acme');
  const create = ['key', 'create', '--account', 'acme', '--json'];
  const { output } = await runService(stage, 'server', create);
  const { id, key } = JSON.parse(output) as { id: string; key: string };
  await commands.text('key', 'restrict', id, '--quota', 'requests/month=10');
  // Both know the key and its quota before the first call.
  for (const port of ports) {
    const usage = async (): Promise<string> =>
      (
        await fetch(`http://127.0.0.1:${port}/v1/usage`, { headers: { authorization: `Bearer ${key}` } })
      ).text();
    await until(usage, (text) => text.includes('"month"'), 'the quota');
  }
  const body = { model: 'daybook-demo', messages: [{ role: 'user', content: 'Hello' }] };
  const replies = await Promise.all(
    Array.from({ length: 24 }, (_, index) => chat({ port: ports[index % 2] as number, key, body })),
  );
  const withStatus = (wanted: number): number => replies.filter(({ status }) => status === wanted).length;
  expect([withStatus(200), withStatus(429)]).toEqual([10, 14]);

  // The workers, who own no table of it, have projected each call by then.
  const listed = async (): Promise<{ data: { status: number }[] }> => {
    const reply = await fetch(`http://127.0.0.1:${ports[0]}/v1/requests`, {
      headers: { authorization: `Bearer ${key}` },
    });
    return (await reply.json()) as { data: { status: number }[] };
  };
  await until(
    listed,
    // The rejected calls are listed as well, a little later.
    ({ data }) => data.filter(({ status }) => status === 200).length === 10,
    'the list of calls',
  );
});

test('the workers publish the head of the log outside the database', async () => {
  await until(
    () => existsSync(path.join(directory, 'published', 'checkpoint')),
    (is) => is,
    'the first checkpoint',
  );
});

test('each ends in good order when it is told to', async () => {
  expect(await Promise.all(servers.map((server) => server.stop()))).toEqual([0, 0]);
  for (const worker of workers) expect(await worker.stop()).toBe(0);
  expect(await living()).toEqual([]);
  expect(await checkHealth(stage, 'worker')).toMatchObject({ code: 1 });
});

test('no service logs an error or a password, or writes files other than published checkpoints', () => {
  for (const each of [...servers, ...workers]) {
    expect(each.output()).not.toContain(CANARY);
    expect(each.output()).not.toMatch(/"level":"(error|fatal)"/);
  }
  const files = (place: string): string[] => readdirSync(place).toSorted();
  expect(files(stage.app)).toEqual(['bin', 'db', 'node_modules', 'package.json', 'server', 'worker']);
  expect(files(directory)).toEqual(['app', 'postgres', 'published', 'secrets']);
  expect(files(path.join(directory, 'published'))).toEqual(['checkpoint', 'checkpoints', 'keys', 'tile']);
  expect(files(path.join(directory, 'secrets'))).toEqual([
    'master_key',
    'owner_url',
    'pepper',
    'postgres_password',
    'service_url',
    'signing_key',
    'upstreams',
  ]);
});

/** What kinds of instances live, in order. */
async function living(): Promise<string[]> {
  const { rows } = await superuser.query<{ kind: string }>(
    `select split_part(name, ' ', 1) as kind from daybook.instance
      where dead_at is null and closed_at is null and name ~ '^(server|worker) ' order by kind`,
  );
  return rows.map(({ kind }) => kind);
}
