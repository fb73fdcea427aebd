import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '#server/process/config.ts';
import { startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { describeStartError } from '#server/process/start.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { makePlace, until, upstreamsVariable } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/**
 * The way of a stranger: one command, the curl that it prints, and the commands beside the running server.
 */

const ROOT = path.join(import.meta.dirname, '../..');
const CREDENTIAL = 'sk-canary-of-the-first-run';
const runFile = promisify(execFile);

let dataDir: string;
let upstream: ScriptedUpstream;
let env: Record<string, string>;
let server: ServerProcess;
let firstKey: string;

beforeAll(async () => {
  dataDir = await makeTestDirectory();
  upstream = await startUpstream({ apiKey: CREDENTIAL });
  env = {
    DAYBOOK_DATA: dataDir,
    DAYBOOK_UPSTREAMS: upstreamsVariable([{ ...upstream, apiKey: CREDENTIAL }]),
  };
  server = await spawnServer(env);
  firstKey = server.firstKey ?? '';
});

afterAll(async () => {
  await server?.stop();
  await upstream?.close();
  await removeTestDirectory(dataDir);
});

/** Runs the printed command as a person would; where there is no curl, does what it says. */
async function runPrinted(command: string): Promise<string> {
  if (spawnSync('curl', ['--version']).status === 0)
    return (await runFile('sh', ['-c', command.replace(/^curl/, 'curl -sSN')])).stdout;
  const header = /"(Authorization: Bearer )\$\(cat '([^']+)'\)"/;
  command = command.replace(
    header,
    (_, name: string, file: string) => `'${name}${readFileSync(file, 'utf8').trim()}'`,
  );
  const [, url = ''] = /^curl (\S+)/.exec(command) ?? [];
  const headers = [...command.matchAll(/-H '([^:]+): ([^']*)'/g)].map(
    ([, name, value]) => [name, value] as [string, string],
  );
  const [, body = ''] = /-d '([^']*)'/.exec(command) ?? [];
  return (await fetch(url, { method: 'POST', headers, body })).text();
}

async function printedCommand(): Promise<string> {
  const output = await until(
    () => server.output(),
    (text) => /-d '[^']*'/.test(text),
    'the greeting',
  );
  return /^ {2}(curl [^]*?-d '[^']*')/m.exec(output)?.[1] ?? '';
}

type Ran = { code: number; stdout: string; stderr: string };

/** Runs a command line program to its end, whatever that is. */
async function runToEnd(
  file: string,
  args: string[],
  more: Record<string, string | undefined> = {},
): Promise<Ran> {
  try {
    return {
      code: 0,
      ...(await runFile(file, args, { cwd: ROOT, env: { ...process.env, ...env, ...more } })),
    };
  } catch (error) {
    const { code, stdout, stderr } = error as Ran;
    return { code, stdout, stderr };
  }
}

/** A command in a process of its own; most are run in this one, which costs a tenth. */
const spawnCommand = (...args: string[]): Promise<Ran> =>
  runToEnd(process.execPath, ['server/cli.ts', ...args]);
const { daybook, json, text: textOf } = commandLine(() => env);

async function statusWith(key: string, model = 'ok'): Promise<number> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const reply = await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model, messages: [] }),
  });
  await reply.text();
  return reply.status;
}

const becomes = (key: string, status: number): Promise<number> =>
  until(
    () => statusWith(key),
    (seen) => seen === status,
    'the server',
  );

test('the first start prints a curl that answers as it stands', async () => {
  const reply = JSON.parse(await runPrinted(await printedCommand())) as {
    choices: { message: { content: string } }[];
  };
  expect(reply.choices[0]?.message.content).toBe('You said: Hello, Daybook');
});

test('the first key is in a file that only its owner can read, and in no output', () => {
  const file = path.join(dataDir, 'first-key.txt');
  expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual([`${firstKey}\n`, 0o600]);
  expect(server.output()).not.toMatch(/dbk_|\/setup#/);
});

test('the same curl with "stream": true streams', async () => {
  const reply = await runPrinted((await printedCommand()).replace('{', '{"stream": true,'));
  expect(reply).toMatch(/^data: \{[^]*\}\n\ndata: \[DONE\]\n\n$/);
});

describe('the commands work beside the running server', () => {
  test('through npm, as the documentation has it', async () => {
    const { code, stdout } = await runToEnd('npm', ['run', '-s', 'daybook', '--', 'key', 'list', '--json']);
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      [{ id: firstKey.slice(4, 12), account: 'first', state: 'active', last4: firstKey.slice(-4) }],
    ]);
    expect(stdout).not.toContain(firstKey);
  });

  test('account create, suspend and reinstate; key create, rotate, revoke and list', async () => {
    const account = await json<{ id: string; name: string }>('account', 'create', 'anna & söhne');
    expect(account).toEqual({ id: expect.stringMatching(/^\w{8}$/) as string, name: 'anna & söhne' });
    const made = await json<{ id: string; key: string }>(
      'key',
      'create',
      '--account',
      'anna & söhne',
      '--name',
      'laptop',
    );
    expect(made.key).toMatch(new RegExp(`^dbk_${made.id}_`));
    await becomes(made.key, 200);
    expect(await json('account', 'suspend', 'anna & söhne')).toEqual({
      name: 'anna & söhne',
      state: 'suspended',
    });
    await becomes(made.key, 403);
    expect(await json('account', 'reinstate', 'anna & söhne')).toEqual({
      name: 'anna & söhne',
      state: 'active',
    });
    await becomes(made.key, 200);

    const rotated = await json<{ id: string; key: string }>('key', 'rotate', made.id, '--overlap', '1h');
    expect(rotated).toEqual({ id: made.id, key: expect.not.stringContaining(made.key) as string });
    await becomes(rotated.key, 200);
    expect(await statusWith(made.key)).toBe(200);
    const listed = (await json<{ id: string }[]>('key', 'list')).find(({ id }) => id === made.id);
    expect(listed).toMatchObject({
      account: 'anna & söhne',
      name: 'laptop',
      state: 'rotating',
      last4: rotated.key.slice(-4),
    });

    expect(await json('key', 'revoke', made.id)).toEqual({ id: made.id, state: 'revoked' });
    await becomes(rotated.key, 401);
    expect(await statusWith(made.key)).toBe(401);
    const ending = await json<{ key: string }>(
      'key',
      'create',
      '--account',
      'first',
      '--expires',
      '2099-01-31T00:00:00Z',
    );
    await becomes(ending.key, 200);
  });

  test.each([
    [['account', 'create', 'first'], 'already_exists'],
    [['account', 'suspend', 'nobody'], 'not_found'],
    [['key', 'create', '--account', 'nobody'], 'not_found'],
    [['key', 'create', '--account', 'first', '--expires', '2001-01-01T00:00:00Z'], 'invalid'],
    [['key', 'create', '--account', 'first', '--expires', 'soon'], 'invalid'],
    [['key', 'revoke', '00000000'], 'not_found'],
    [['key', 'rotate', '00000000', '--overlap', 'long'], 'invalid'],
  ])(
    "what can't be done is told in one line, and as JSON where that was asked for: %j",
    async (args, code) => {
      const exitCode = code === 'not_found' ? 3 : 1;
      const [text, before, after] = await Promise.all([
        daybook(...args),
        daybook('--json', ...args),
        daybook(...args, '--json'),
      ]);
      expect([text.code, text.stdout, text.stderr]).toEqual([
        exitCode,
        '',
        expect.stringMatching(/^daybook: [^\n]+\n$/),
      ]);
      for (const ran of [before, after]) {
        expect([ran.code, ran.stdout, JSON.parse(ran.stderr)]).toEqual([
          exitCode,
          '',
          { error: { code, message: expect.any(String) as string } },
        ]);
      }
    },
  );

  test('a mistyped command shows the help and fails', async () => {
    const ran = await spawnCommand('key', 'creat');
    expect(ran.code).toBe(64);
    expect(ran.stderr).toContain('--help');
  });

  test('doctor finds all well, and masks every secret', async () => {
    const report = await json<{ findings: { check: string; ok: boolean }[] }>('doctor');
    const checks = [
      'embedded PostgreSQL',
      'events',
      'worker and projections',
      'background jobs',
      'diagnostic output',
      'sinks',
      'checkpoints',
      'upstream credentials',
      'keys of attribution',
      'upstream upstream-1',
    ];
    expect(report.findings).toMatchObject(checks.map((check) => ({ check, ok: true })));
    const { stdout } = await spawnCommand('doctor');
    for (const text of [JSON.stringify(report), stdout]) {
      expect(text).not.toContain(CREDENTIAL);
      expect(text).toContain(`(set, ${CREDENTIAL.length} characters)`);
    }
    expect(stdout).toMatch(/worker and projections: 1 worker\(s\) running; .*requests at \d+ \(\d+ behind\)/);
    const DAYBOOK_UPSTREAMS = upstreamsVariable([{ ...upstream, apiKey: 'sk-wrong' }]);
    const wrong = await commandLine(() => ({ ...env, DAYBOOK_UPSTREAMS })).daybook('doctor');
    expect([wrong.code, wrong.stdout]).toEqual([
      1,
      expect.stringMatching(/FAIL upstream upstream-1: rejects its api_key/),
    ]);
  });

  test('log tail shows the newest events', async () => {
    const stdout = await textOf('log', 'tail', '--no-follow', '-n', '3', '--json');
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { position: number; event: { type: string } });
    expect(events).toHaveLength(3);
    expect(events.map(({ position }) => position)).toEqual(
      [0, 1, 2].map((n) => (events[0]?.position ?? 0) + n),
    );
    const { code, stdout: text } = await spawnCommand('log', 'tail', '--no-follow', '-n', '1000');
    expect(code).toBe(0);
    expect(text).toMatch(/account\.registered[^]*key\.created[^]*request\.accepted[^]*request\.settled/);
    expect(text).not.toMatch(/dbk_|digest|Hello, Daybook/);
  });
});

test.each([
  ['SIGTERM', () => server.stop(), {}],
  // Nothing kills the last one, so that it needs no worker.
  ['SIGKILL', () => server.kill(), { DAYBOOK_WORKER: 'off' }],
] as const)('after %s a new start keeps keys and log, and prints no key', async (_signal, end, more) => {
  const readAll = () => textOf('log', 'tail', '--no-follow', '-n', '1000', '--json');
  const before = await readAll();
  const code = await end();
  expect(code ?? 0).toBe(0);
  server = await spawnServer({ ...env, ...more });
  expect([server.firstKey, server.output()]).toEqual([null, expect.not.stringContaining('curl')]);
  expect(await statusWith(firstKey)).toBe(200);
  expect((await readAll()).startsWith(before)).toBe(true);
});

test('of servers started at once on an empty database, all run and one prints the first key', async () => {
  await using place = await makePlace();
  const servers = await Promise.all(
    Array.from({ length: 3 }, () => startServer(readConfig(place.env), createLogger('silent'))),
  );
  try {
    const keys = servers.flatMap(({ firstKey: first }) => first?.secret ?? []);
    expect(keys).toHaveLength(1);
    for (const { baseUrl } of servers) {
      const list = () =>
        fetch(`${baseUrl}/models`, { headers: { authorization: `Bearer ${keys[0] ?? ''}` } });
      await until(
        async () => (await list()).status,
        (status) => status === 200,
        'the first key',
      );
    }
  } finally {
    await Promise.all(servers.map((each) => each.stop()));
  }
});

test('a second server on the same data directory is refused, in one line that names it', async () => {
  // How a process ends that is refused is in invalid-configuration.test.ts.
  const second = startServer(readConfig({ ...env, PORT: '0' }), createLogger('silent'));
  const line = describeStartError(await second.catch((error: unknown) => error));
  expect(line).toMatch(/^[^\n]+$/);
  expect(line).toContain(dataDir);
  expect(await statusWith(firstKey)).toBe(200);
});

test('a first start on a taken port makes nothing, and says so in one line', async () => {
  const fresh = path.join(dataDir, 'fresh');
  const taken = String(server.port);
  const ran = await runToEnd(process.execPath, ['server/main.ts'], { PORT: taken, DAYBOOK_DATA: fresh });
  expect([ran.code, ran.stdout, ran.stderr]).toEqual([
    1,
    '',
    expect.stringMatching(
      new RegExp(`^daybook: PORT is not usable: another process is listening on \\S+:${taken}[^\\n]+\\n$`),
    ),
  ]);
  expect(existsSync(fresh)).toBe(false);
});
