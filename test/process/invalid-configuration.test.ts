import { execFile } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLogger } from '#db/diagnostics/logger.ts';
import { startServer } from '#server/process/server.ts';
import { describeStartError, readStartConfig } from '#server/process/start.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/**
 * A wrong configuration refuses to start with one line that names the variable and repeats no secret. One
 * process for each step of a start that refuses shows how a process ends; the other cases run the same code
 * in this process.
 */

const MAIN = path.join(import.meta.dirname, '../../server/main.ts');
const SECRET = 'sk-canary-0123456789abcdef';
/** A start that is not refused would run on; this ends the test of it. */
const REFUSED_WITHIN_MS = 45_000;

let dataDir: string;
let database: TestDatabase;
const taken = createServer();

beforeAll(async () => {
  dataDir = await makeTestDirectory();
  database = await createDatabase();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  await writeFile(path.join(dataDir, 'open-pepper'), `${'0'.repeat(64)}\n`);
  await chmod(path.join(dataDir, 'open-pepper'), 0o644);
  await writeFile(path.join(dataDir, 'open-master-key'), `${'0'.repeat(64)}\n`);
  await chmod(path.join(dataDir, 'open-master-key'), 0o640);
  await writeFile(path.join(dataDir, 'short-pepper'), 'abc\n', { mode: 0o600 });
  await writeFile(path.join(dataDir, 'no-certificate'), 'not a certificate\n');
});

afterAll(async () => {
  taken.close();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

const upstreams = (more: object): string =>
  JSON.stringify([{ name: 'a', base_url: 'https://a.example/v1', api_key: SECRET, models: ['*'], ...more }]);
const inData = (name: string): string => path.join(dataDir, name);
const noCertificate = () => ({ TLS_CERT: inData('no-certificate'), TLS_KEY: inData('no-certificate') });

type Case = [named: string, wrong: string, env: () => Record<string, string>];

function environmentOf(env: Case[2]): Record<string, string | undefined> {
  return {
    PATH: process.env['PATH'],
    PORT: '0',
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: database.url,
    LOG_LEVEL: 'silent',
    ...env(),
  };
}

test.for<Case>([
  ['ARCHIVE_DROP', 'of the worker beside it', () => ({ ARCHIVE_DROP: 'maybe' })],
  ['PORT', 'taken', () => ({ PORT: String((taken.address() as { port: number }).port) })],
  ['DAYBOOK_UPSTREAMS', 'no JSON', () => ({ DAYBOOK_UPSTREAMS: `[{"api_key":"${SECRET}"` })],
  ['TLS_CERT', 'no certificate', noCertificate],
  ['DATABASE_URL', 'nobody there', () => ({ DATABASE_URL: `postgres://u:${SECRET}@127.0.0.1:1/x` })],
  ['DAYBOOK_PEPPER_FILE', 'too short', () => ({ DAYBOOK_PEPPER_FILE: inData('short-pepper') })],
  ['DAYBOOK_DATA', 'a file', () => ({ DAYBOOK_DATA: inData('no-certificate'), DATABASE_URL: '' })],
])('a process ends: %s: %s', { concurrent: true }, async ([named, _wrong, env], { expect: ensure }) => {
  const ended = await new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
    execFile(
      process.execPath,
      [MAIN],
      { env: environmentOf(env), timeout: REFUSED_WITHIN_MS },
      (error, stdout, stderr) => resolve({ code: error?.code, stdout, stderr }),
    );
  });
  ensure(ended).toEqual({
    code: 1,
    stdout: '',
    stderr: ensure.stringMatching(/^daybook: [^\n]+\n$/) as string,
  });
  ensure(ended.stderr).toContain(named);
  ensure(ended.stderr).not.toContain(SECRET);
});

/** The line that a start is refused with. */
async function refusal(environment: Record<string, string | undefined>): Promise<string | null> {
  try {
    const server = await startServer(readStartConfig(environment), createLogger('silent'));
    await server.stop();
  } catch (error) {
    return describeStartError(error);
  }
  throw new Error('the server started');
}

test.for<Case>([
  ['PORT', 'out of range', () => ({ PORT: '70000' })],
  ['HOST', 'no address of this machine', () => ({ HOST: '192.0.2.1' })],
  ['DAYBOOK_UPSTREAMS', 'no array', () => ({ DAYBOOK_UPSTREAMS: `{"api_key":"${SECRET}"}` })],
  [
    'DAYBOOK_UPSTREAMS',
    'an address without /v1',
    () => ({ DAYBOOK_UPSTREAMS: upstreams({ base_url: 'https://a.example/' }) }),
  ],
  [
    'DAYBOOK_UPSTREAMS',
    'an address with a password',
    () => ({ DAYBOOK_UPSTREAMS: upstreams({ base_url: `https://u:${SECRET}@a.example/v1` }) }),
  ],
  [
    'DAYBOOK_UPSTREAMS',
    'another protocol',
    () => ({ DAYBOOK_UPSTREAMS: upstreams({ base_url: 'ftp://a.example/v1' }) }),
  ],
  ['DAYBOOK_UPSTREAMS', 'no models', () => ({ DAYBOOK_UPSTREAMS: upstreams({ models: [] }) })],
  ['DAYBOOK_UPSTREAMS', 'an unknown field', () => ({ DAYBOOK_UPSTREAMS: upstreams({ apikey: SECRET }) })],
  [
    'DAYBOOK_UPSTREAMS',
    'a key with a blank',
    () => ({ DAYBOOK_UPSTREAMS: upstreams({ api_key: `${SECRET} ` }) }),
  ],
  ['OPENAI_API_KEY', 'a blank in it', () => ({ OPENAI_API_KEY: `${SECRET} ` })],
  ['OPENAI_BASE_URL', 'no address', () => ({ OPENAI_BASE_URL: 'api.openai.com' })],
  ['UPSTREAM_IDLE_TIMEOUT_MS', 'negative', () => ({ UPSTREAM_IDLE_TIMEOUT_MS: '-1' })],
  ['UPSTREAM_CONNECT_TIMEOUT_MS', 'with a unit', () => ({ UPSTREAM_CONNECT_TIMEOUT_MS: '5s' })],
  ['MAX_BODY_MB', 'nought', () => ({ MAX_BODY_MB: '0' })],
  ['ACCOUNTING', 'unknown', () => ({ ACCOUNTING: 'eventual' })],
  ['LOG_LEVEL', 'unknown', () => ({ LOG_LEVEL: 'loud' })],
  ['TLS_KEY', 'missing', () => ({ TLS_CERT: inData('no-certificate') })],
  ['TLS_CERT', 'missing', () => ({ TLS_KEY: inData('no-certificate') })],
  ['TLS_CERT', 'not to be read', () => ({ TLS_CERT: inData('nothing'), TLS_KEY: inData('nothing') })],
  ['DATABASE_URL', 'another protocol', () => ({ DATABASE_URL: `mysql://u:${SECRET}@127.0.0.1/x` })],
  ['DATABASE_URL', 'no address', () => ({ DATABASE_URL: `postgres://u:${SECRET}@127.0.0.1:port/x` })],
  [
    'DATABASE_URL',
    'no such database',
    () => ({ DATABASE_URL: database.url.replace(database.name, 'nothing') }),
  ],
  [
    'DAYBOOK_MASTER_KEY_FILE',
    'readable by the group',
    () => ({ DAYBOOK_MASTER_KEY_FILE: inData('open-master-key') }),
  ],
  ['READYZ_TOKEN', 'short', () => ({ READYZ_TOKEN: 'guess' })],
  ['DAYBOOK_PEPPER_FILE', 'readable by others', () => ({ DAYBOOK_PEPPER_FILE: inData('open-pepper') })],
])('%s: %s', async ([named, _wrong, env]) => {
  const line = await refusal(environmentOf(env));
  expect(line).toMatch(/^[^\n]+$/);
  expect(line).toContain(named);
  expect(line).not.toContain(SECRET);
});
