import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { findBinaries } from '#db/postgres/embedded/binaries.ts';
import { chooseRunAs, command, run } from '#db/postgres/embedded/run-as.ts';
import type { Service } from './compose.ts';
import { refusedPort } from '../upstream/upstream.ts';
import { until } from '../relay.ts';

/** A PostgreSQL of its own, set up and started as the compose file's service would be. */
export type ComposePostgres = { port: number; superuser(): Client; stop(): Promise<void> };

const START_WITHIN_MS = 120_000;

/**
 * Does what the image's entry point does with this service: initdb with its arguments and user, its
 * database, and then its command. Over TCP on the loopback interface.
 */
export async function startComposePostgres(
  directory: string,
  service: Service,
  password: string,
): Promise<ComposePostgres> {
  const {
    POSTGRES_USER: user = '',
    POSTGRES_DB: database = '',
    POSTGRES_INITDB_ARGS: initdbArgs = '',
  } = service.environment;
  const data = path.join(directory, 'postgres');
  mkdirSync(data, { mode: 0o700 });
  const passwordFile = path.join(data, 'pwfile');
  const binaries = await findBinaries();
  const runAs = await chooseRunAs(data, directory, binaries);
  writeFileSync(passwordFile, password, { mode: 0o600 });
  const cluster = path.join(data, 'cluster');
  if (runAs.owner) for (const each of [data, passwordFile]) chownSync(each, runAs.owner.uid, runAs.owner.gid);
  const initdb = command(runAs, binaries.initdb, [
    `--pgdata=${cluster}`,
    `--username=${user}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    ...initdbArgs.split(' '),
  ]);
  await run(initdb.program, initdb.args, initdb.options);

  const port = await refusedPort();
  const [, ...args] = service.command;
  const postgres = command(runAs, binaries.postgres, [
    '-D',
    cluster,
    '-c',
    'listen_addresses=127.0.0.1',
    '-c',
    `port=${port}`,
    '-c',
    'unix_socket_directories=',
    ...args,
  ]);
  const child = spawn(postgres.program, postgres.args, { ...postgres.options, stdio: 'ignore' });
  const gone = once(child, 'exit');
  const clientOf = (name: string): Client => {
    const client = new Client({ host: '127.0.0.1', port, user, password, database: name });
    client.on('error', () => undefined);
    return client;
  };
  const created = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`PostgreSQL ended with ${child.exitCode}`);
    const client = clientOf('postgres');
    try {
      await client.connect();
      await client.query(`create database ${database}`);
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  await until(created, (is) => is, 'PostgreSQL', START_WITHIN_MS);
  return {
    port,
    superuser: () => clientOf(database),
    async stop() {
      // As the image does: without waiting for sessions.
      child.kill('SIGINT');
      await gone;
    },
  };
}
