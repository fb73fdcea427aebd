import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { glob, mkdir, readFile, symlink } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stageProgram } from '../../deploy/npm/build.ts';
import { chat } from '../support/client.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { until } from '../support/relay.ts';

/** The npm package, below a node_modules as npm installs it, with the packages of this checkout. */

const ROOT = path.join(import.meta.dirname, '../..');
let directory: string;
let installed: string;

beforeAll(async () => {
  directory = await makeTestDirectory();
  installed = path.join(directory, 'node_modules/daybook');
  await stageProgram(installed);
  await symlink(path.join(ROOT, 'node_modules'), path.join(installed, 'node_modules'));
});
afterAll(async () => {
  await removeTestDirectory(directory);
});

const daybook = (): string => path.join(installed, 'bin/daybook.js');

test('the same sources give the same bytes', async () => {
  const again = path.join(directory, 'again');
  await stageProgram(again);
  expect(await digestOf(again)).toBe(await digestOf(installed));
});

test('it depends on every package that it imports, each in one version', async () => {
  const { dependencies, optionalDependencies } = JSON.parse(
    await readFile(path.join(installed, 'package.json'), 'utf8'),
  ) as Record<'dependencies' | 'optionalDependencies', Record<string, string>>;
  const imported = new Set<string>();
  for (const name of await filesOf(installed)) {
    if (!name.endsWith('.js')) continue;
    const text = await readFile(path.join(installed, name), 'utf8');
    for (const [, specifier = ''] of text.matchAll(/(?:\bfrom |^import |\bimport\()'(@?[\w-][\w@./-]*)'/gm))
      if (!isBuiltin(specifier)) imported.add(packageOf(specifier));
  }
  expect(imported.size).toBeGreaterThan(10);
  expect([...imported].filter((name) => !(name in dependencies))).toEqual([]);
  const versions = Object.values({ ...dependencies, ...optionalDependencies });
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+[\w.-]*$/.test(version))).toEqual([]);
});

test('it has neither TypeScript nor tests', async () => {
  const files = await filesOf(installed);
  expect(files.filter((name) => /\.tsx?$|^(?:test|bench|web)\//.test(name))).toEqual([]);
});

test('it starts in an empty directory, and the first key works', async () => {
  const own = path.join(directory, 'empty');
  await mkdir(own);
  const env = { PATH: process.env['PATH'], HOME: own, PORT: '0', LAME_DUCK_MS: '0' };
  const child = spawn(process.execPath, [daybook(), 'start'], {
    cwd: own,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text));
  try {
    await until(
      () => Promise.resolve(output.includes('Base URL') || child.exitCode !== null),
      (isDone) => isDone,
      'the start',
    );
    const port = Number(/Base URL for clients: http:\/\/[^:]+:(\d+)/.exec(output)?.[1]);
    const key = (await readFile(path.join(own, 'data/first-key.txt'), 'utf8')).trim();
    const body = { model: 'daybook-demo', messages: [{ role: 'user', content: 'Hello' }] };
    expect((await chat({ port, key, body })).status).toBe(200);
  } finally {
    // The program has taken the place of the command, so that a service manager's signals reach it.
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
  }
  expect([child.exitCode, output]).toEqual([0, expect.stringContaining('connections closed')]);
});

test('it prints its version', () => {
  const { stdout } = spawnSync(process.execPath, [daybook(), '--version'], { encoding: 'utf8' });
  expect(stdout.trim()).toBe('0.1.0');
});

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');

async function filesOf(root: string): Promise<string[]> {
  const names: string[] = [];
  const found = glob('**/*', { cwd: root, withFileTypes: true, exclude: ['node_modules'] });
  for await (const entry of found)
    if (entry.isFile()) names.push(path.relative(root, path.join(entry.parentPath, entry.name)));
  return names.toSorted();
}

async function digestOf(root: string): Promise<string> {
  const hash = createHash('sha256');
  for (const name of await filesOf(root))
    hash.update(`${name}\n`).update(await readFile(path.join(root, name)));
  return hash.digest('hex');
}
