import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { externalStore, patient } from '#db/postgres/connect.ts';
import { roleScript } from '#db/postgres/role-script.ts';
import { ensureServiceLogin } from '#db/postgres/service-login.ts';
import { openStore } from '#db/postgres/store.ts';
import { migrate } from '#db/schema/migrate.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { prepareQueue } from '../../worker/queue.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { ask } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { createPostgres, PASSWORD, type PostgresServer, startWithOwner } from '../support/postgres/server.ts';
import { makeCertificates } from '../support/postgres/certificates.ts';

/** A PostgreSQL that an operator or a managed service runs. */

let directory: string;
let server: PostgresServer;
let superuser: Client;

beforeAll(async () => {
  directory = await makeTestDirectory();
  server = await createPostgres(directory);
  await startWithOwner(server);
  superuser = await server.superuser();
});
afterAll(async () => {
  await superuser.end();
  await server.stop();
  await removeTestDirectory(directory);
});

describe('an owner that is no superuser and has no CREATEROLE, as on a managed service', () => {
  const { daybook } = commandLine(() => ({
    DAYBOOK_DATA: directory,
    DATABASE_URL: server.url('managed', 'managed'),
  }));

  beforeAll(async () => {
    await superuser.query(`create role managed login nosuperuser nocreaterole password '${PASSWORD}'`);
    await superuser.query(`create role managed_service login noinherit password '${PASSWORD}'`);
    await superuser.query('create database managed owner managed');
  });

  test('is referred to the script before anything is created', async () => {
    await expect(migrate(externalStore(server.url('managed', 'managed')))).rejects.toThrow(
      /managed may not create the role daybook_relay or become it.*"daybook db roles" prints/,
    );
  });

  test('migrates and serves every role after an administrator ran the printed script, twice', async () => {
    const { stdout, code } = await daybook('db', 'roles', '--service', 'managed_service');
    expect(code).toBe(0);
    expect(stdout.trim()).toBe(roleScript({ owner: 'managed', service: 'managed_service' }));
    await superuser.query(stdout);
    await superuser.query(stdout);

    const owner = externalStore(server.url('managed', 'managed'));
    expect((await migrate(owner)).length).toBeGreaterThan(0);
    await prepareQueue(owner, createLogger('silent'));
    for (const role of ['relay', 'worker', 'auditor'] as const)
      expect(await ask(owner.config(role), 'select current_user::text')).toBe(`daybook_${role}`);
    await ask(owner.config('relay'), `select daybook.register_instance('managed')`);

    const url = server.url('managed_service', 'managed');
    expect(await ensureServiceLogin(owner, url)).toBe('managed_service');
    const service = externalStore(url);
    expect(await migrate(service)).toEqual([]);
    expect(await ask(service.config('relay'), 'select current_user::text')).toBe('daybook_relay');
  });

  test('gets no service login that the script has not prepared', async () => {
    const owner = externalStore(server.url('managed', 'managed'));
    await expect(ensureServiceLogin(owner, server.url('other', 'managed'))).rejects.toThrow(
      /"daybook db roles --service other" prints/,
    );
  });
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

describe.skipIf(!hasOpenssl)('TLS with sslmode=verify-full and a CA file', () => {
  let files: Awaited<ReturnType<typeof makeCertificates>>;
  const address = (host = 'localhost', ca = files.ca): string =>
    `postgres://daybook:${PASSWORD}@${host}:${server.port}/daybook?sslmode=verify-full&sslrootcert=${ca}`;
  const open = (url: string) => openStore({ DATABASE_URL: url, DAYBOOK_DATA: 'unused' }, () => {});

  /** Serves with another certificate from now on. */
  async function serveWith({ certificate, key }: { certificate: string; key: string }): Promise<void> {
    await server.write('server.crt', certificate);
    await server.write('server.key', key);
    await server.write(
      'pg_hba.conf',
      'hostnossl all daybook all reject\nhost all all 127.0.0.1/32 scram-sha-256\n',
    );
    await superuser.query('alter system set ssl = on');
    await superuser.query('select pg_reload_conf()');
    await expect.poll(() => ask({ ...direct(), ssl: false }, 'show ssl')).toBe('on');
    // A reload reaches new sessions once the server has read the files.
    await expect.poll(() => servedSerial(server.port)).toBe(serialOf(certificate));
  }
  const direct = () => ({
    host: '127.0.0.1',
    port: server.port,
    user: 'postgres',
    database: 'postgres',
    password: PASSWORD,
  });

  beforeAll(async () => {
    const folder = path.join(directory, 'certificates');
    await mkdir(folder);
    files = await makeCertificates(folder);
  });

  test('connects every role over TLS to a server with a valid certificate', async () => {
    await superuser.query(roleScript({ owner: 'daybook', service: null }));
    await serveWith(files.valid);
    const { store, close } = await open(address());
    await migrate(patient(store));
    const encrypted = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()';
    expect(await ask(store.config('owner'), encrypted)).toBe(true);
    // Whether their own session is encrypted is nothing that the other roles see; pg_hba.conf rejects others.
    for (const role of ['relay', 'worker'] as const)
      expect(await ask(store.config(role), 'select current_user::text')).toBe(`daybook_${role}`);
    await close();
  });

  test('refuses a certificate of another CA, of another name, and one that has expired', async () => {
    await serveWith(files.valid);
    await expect(open(address('localhost', files.otherCa))).rejects.toThrow(/no connection \(.*certificate/i);
    await expect(open(address('127.0.0.1'))).rejects.toThrow(/no connection \(.*altnames/i);
    await serveWith(files.wrongName);
    await expect(open(address())).rejects.toThrow(/no connection \(.*altnames/i);
    await serveWith(files.expired);
    await expect(open(address())).rejects.toThrow(/no connection \(certificate has expired/i);
  });

  test('refuses a CA file that cannot be read, and a server without TLS', async () => {
    await expect(open(address('localhost', '/no/such/ca.pem'))).rejects.toThrow(
      '/no/such/ca.pem cannot be read',
    );
    await superuser.query('alter system set ssl = off');
    await superuser.query('select pg_reload_conf()');
    await expect.poll(() => ask(direct(), 'show ssl')).toBe('off');
    await expect(open(address())).rejects.toThrow(/no connection \(.*does not support SSL/);
  });
});

const serialOf = (certificate: string): string => runOpenssl(['x509', '-noout', '-serial'], certificate);

/** The serial number of the certificate that a PostgreSQL serves now. */
function servedSerial(port: number): string {
  const shown = runOpenssl(['s_client', '-starttls', 'postgres', '-connect', `127.0.0.1:${port}`], '');
  return serialOf(shown);
}

function runOpenssl(args: readonly string[], input: string): string {
  return spawnSync('openssl', args, { input, encoding: 'utf8' }).stdout;
}
