import { writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Input } from '#db/command-line/command.ts';
import { connectAs } from '#db/postgres/connect.ts';
import { runProgram } from '#server/cli/program.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { readLog } from '../support/log/log-writer.ts';

/** A relay declared by a file, on a real store, as an operator keeps one in a repository. */

const SECRET = 'sk-canary-credential-7f3a9c51be02';
const SECOND = 'sk-canary-second-02be51c9a3f7';

let directory: string;
let database: TestDatabase;
let variables: Record<string, string> = { OPENAI_SECRET: SECRET };
beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  await writeFile(path.join(directory, 'second'), `${SECOND}\n`);
});
afterAll(async () => {
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

const env = (): Record<string, string> => ({
  DAYBOOK_DATA: path.join(directory, 'data'),
  DATABASE_URL: database.url,
  ...variables,
});
const { daybook, json, text } = commandLine(env);

/** Somebody at a terminal, who answers. */
function terminal(answer: string): Input {
  const input: Input = Object.assign(new PassThrough(), { isTTY: true });
  (input as PassThrough).end(`${answer}\n`);
  return input;
}

async function file(...lines: string[]): Promise<string> {
  const name = path.join(directory, 'relay.yaml');
  await writeFile(name, lines.join('\n'));
  return name;
}

const events = async (): Promise<{ type: string }[]> => (await readLog(database)).map(({ event }) => event);
const types = async (): Promise<string[]> => (await events()).map(({ type }) => type);

async function secrets(): Promise<string[]> {
  const relay = await connectAs(database, 'relay');
  const opened = await openCredentials(relay, readKeys(path.join(directory, 'data.master-key')));
  await relay.end();
  expect(opened.unopened).toEqual([]);
  return [...opened.secrets.values()].toSorted();
}

const UPSTREAM = [
  'upstreams:',
  '  openai:',
  '    provider: openai',
  '    base_url: https://api.example.com/v1',
  '    models: [gpt-*]',
];
const CREDENTIALS = ['    credentials:', '      - {label: main, secret: "${OPENAI_SECRET}"}'];
const MODELS = [
  'models:',
  '  quick: {alias_of: fast}',
  '  fast:',
  '    targets:',
  '      - {upstream: openai, model: gpt-4o-mini, weight: 3}',
];
const MORE = [
  'plans:',
  '  free: {requests_per_minute: 60}',
  'prices:',
  '  gpt-4o*: {input: 2.50, cache_read: 1.25, output: 10}',
];
const WHOLE = [...UPSTREAM, ...CREDENTIALS, ...MODELS, ...MORE];

describe('a file that declares a relay', () => {
  test('is shown as what differs, and changes nothing in a dry run, which ends with 2', async () => {
    const { code, stdout, stderr } = await daybook('apply', await file(...WHOLE), '--dry-run');
    expect([code, stderr]).toEqual([2, '']);
    expect(stdout).toBe(`+ upstream "openai"
    + provider: openai
    + base_url: https://api.example.com/v1
    + models: ["gpt-*"]
    + network: public
    + on_client_disconnect: cancel
    + retries: 0
    + paused: false
    + credential "main": …be02
+ model "fast"
    + targets: [{"upstream":"openai","model":"gpt-4o-mini","weight":3,"order":0}]
+ model "quick"
    + alias_of: fast
+ plan "free"
    + requests_per_minute: 60
+ price "gpt-4o*"
    + input: 2500000000
    + cache_read: 1250000000
    + output: 10000000000
`);
    expect(await events()).toEqual([]);
  });

  test('is not applied where nobody can be asked, nor where the answer is no', async () => {
    const name = await file(...WHOLE);
    expect(await daybook('apply', name)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--yes') as string,
    });
    const { code, stdout, stderr } = await commandLine(env, () => terminal('n')).daybook('apply', name);
    expect([code, stdout]).toEqual([0, 'Nothing was changed.\n']);
    expect(stderr).toMatch(/^\+ upstream "openai"[^]*Make these changes\? \[y\/N\] $/);
    const silent: Input = Object.assign(new PassThrough().end(), { isTTY: true });
    expect(await commandLine(env, () => silent).daybook('apply', name)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/The input ended without an answer, so nothing was done\.\n$/) as string,
    });
    expect(await events()).toEqual([]);
  });

  test('applies the file once confirmed, recording the operator; a second run changes nothing', async () => {
    const name = await file(...WHOLE);
    const { code, stdout } = await commandLine(env, () => terminal('y')).daybook('apply', name);
    expect([code, stdout]).toEqual([0, 'Applied, up to position 6 of the log.\n']);
    const actor = `apply/${userInfo().username.replaceAll(/[^\w.-]/g, '-')}`;
    expect(await events()).toMatchObject([
      { type: 'upstream.added', actor },
      { type: 'upstream.credential_added', label: 'main', actor },
      { type: 'model.defined', model: 'fast', actor },
      { type: 'model.defined', model: 'quick', actor },
      { type: 'plan.defined', plan: 'free', actor },
      { type: 'model.priced', model: 'gpt-4o*', actor },
    ]);
    expect(await secrets()).toEqual([SECRET]);
    expect(await text('apply', name)).toBe('Nothing to do: the current state matches the file.\n');
    expect(await text('apply', name, '--dry-run', '--prune')).toContain('Nothing to do');
    expect(await types()).toHaveLength(6);
  });

  test('prints each changed field, and leaves what the file does not name', async () => {
    await json('upstream', 'pause', 'openai');
    await json('upstream', 'add', 'other', '--base-url', 'https://other.example.com/v1');
    const changed = await file(
      ...UPSTREAM.map((line) => line.replace('[gpt-*]', '[gpt-*, o1]')),
      '    retries: 1',
    );
    expect(await text('apply', changed, '--yes')).toMatch(
      /^~ upstream "openai"\n {4}~ models: \["gpt-\*"\] -> \["gpt-\*","o1"\]\n {4}~ retries: 0 -> 1\nApplied/,
    );
    expect(await json('upstream', 'list')).toMatchObject([
      { name: 'openai', state: 'paused', credentials: 1 },
      { name: 'other' },
    ]);
    expect(await json('model', 'list')).toHaveLength(2);
    await json('apply', await file(...UPSTREAM, '    paused: false'), '--yes');
    expect(await json('upstream', 'list')).toMatchObject([{ name: 'openai', state: 'in use' }, {}]);
  });

  test('knows another secret by its fingerprint, and gives it in the place of the old one', async () => {
    const name = await file(...UPSTREAM, ...CREDENTIALS);
    variables = { OPENAI_SECRET: SECOND };
    const before = await types();
    expect(await text('apply', name, '--yes')).toContain('    ~ credential "main": …be02 -> …a3f7\n');
    expect((await types()).slice(before.length)).toEqual([
      'upstream.credential_added',
      'upstream.credential_removed',
    ]);
    expect(await secrets()).toEqual([SECOND]);
    expect(await json('apply', name, '--yes')).toMatchObject({ outcome: 'nothing to do' });
    await daybook('rekey');
    expect(await json('apply', name, '--yes')).toMatchObject({ outcome: 'nothing to do' });
    expect(
      await json(
        'apply',
        await file(
          ...UPSTREAM,
          '    credentials:',
          `      - {label: main, secret: "file:${path.join(directory, 'second')}"}`,
        ),
        '--yes',
      ),
    ).toMatchObject({ outcome: 'nothing to do' });
    variables = { OPENAI_SECRET: SECRET };
  });

  test('with --prune removes what the file does not name, only in the sections that it has', async () => {
    const credentials = ['    credentials:', '      - {label: second, secret: "${OPENAI_SECRET}"}'];
    const fresh = ['models:', '  new: {targets: [{upstream: openai}]}', '  fast: {alias_of: new}'];
    const name = await file(...UPSTREAM, ...credentials, ...fresh);
    expect(await text('apply', name, '--yes', '--prune')).toMatch(
      new RegExp(
        [
          '^~ upstream "openai"',
          ' {4}\\+ credential "second": …be02',
          ' {4}- credential "main": …a3f7',
          '- model "quick"',
          '\\+ model "new"[^]*~ model "fast"',
          ' {4}- targets: .*',
          ' {4}\\+ alias_of: new',
          '- upstream "other"',
          'Applied',
        ].join('\n'),
      ),
    );
    expect(await secrets()).toEqual([SECRET]);
    expect(await json('plan', 'list')).toMatchObject([{ name: 'free', state: 'active' }]);
    expect(await text('apply', name, '--yes', '--prune')).toContain('Nothing to do');
    const { stderr } = await daybook('apply', await file('upstreams: {}'), '--yes', '--prune');
    expect(stderr).toBe(
      'daybook: relay.yaml:1: Upstream "openai" is the only target of "new". ' +
        'Redefine or retire that model first.\n',
    );
  });

  test('names the line of a change that is refused', async () => {
    const before = await events();
    const { code, stdout, stderr } = await daybook(
      'apply',
      await file(...UPSTREAM, 'models:', '  one: {targets: [{upstream: nowhere}]}'),
      '--yes',
    );
    expect([code, stdout, stderr]).toEqual([
      3,
      '',
      'daybook: relay.yaml:7: There is no upstream named "nowhere".\n',
    ]);
    expect(await events()).toEqual(before);
  });

  test('applies the plan as shown or not at all: a concurrent change is never overwritten', async () => {
    const name = await file(
      ...UPSTREAM,
      '    retries: 3',
      'models:',
      '  added: {targets: [{upstream: openai}]}',
    );
    const input = Object.assign(new PassThrough(), { isTTY: true });
    const asked = Promise.withResolvers<void>();
    let stderr = '';
    const err = (piece: string): void => {
      stderr += piece;
      if (piece.includes('[y/N]')) asked.resolve();
    };
    const applying = runProgram(['apply', name], {
      env: env(),
      out: () => undefined,
      err,
      input: () => input,
    });
    await asked.promise;
    await json('upstream', 'change', 'openai', '--on-client-disconnect', 'drain');
    const between = await types();
    input.end('y\n');
    expect(await applying).toBe(1);
    expect(stderr).toContain('daybook: The state changed meanwhile');
    expect(await types()).toEqual(between);
  });
});
