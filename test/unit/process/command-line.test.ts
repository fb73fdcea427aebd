import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Command } from '#db/command-line/command.ts';
import { buildProgram, runProgram } from '#server/cli/program.ts';

const surroundings = { env: {}, out: () => undefined, err: () => undefined };

/** A command and all below it, each with its full name. */
function allOf(command: Command, name: string): [string, Command][] {
  const below = command.commands as readonly Command[];
  return [[name, command], ...below.flatMap((each) => allOf(each, `${name} ${each.name()}`))];
}
const commands = allOf(await buildProgram(surroundings), 'daybook');

test('the program is built without running a command', () => {
  expect(commands.length).toBeGreaterThan(60);
});

test.each(commands)('%s has a description, and so has each of its arguments and options', (_, command) => {
  expect(command.description()).not.toBe('');
  const { registeredArguments, options } = command;
  expect(
    registeredArguments.filter(({ description }) => description === '').map((each) => each.name()),
  ).toEqual([]);
  expect(options.filter(({ description }) => description === '').map(({ flags }) => flags)).toEqual([]);
});

test('--version prints the version of the package', async () => {
  let printed = '';
  const code = await runProgram(['--version'], { ...surroundings, out: (text) => (printed += text) });
  const file = path.join(import.meta.dirname, '../../../package.json');
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string };
  expect([code, printed]).toEqual([0, `${version}\n`]);
});

test.each(commands.filter(([name]) => name.split(' ').length === 2))(
  '%s is found where only the commands of its subject are loaded',
  async (name) => {
    let printed = '';
    const args = [...name.split(' ').slice(1), '--help'];
    const code = await runProgram(args, { ...surroundings, out: (text) => (printed += text) });
    expect([code, printed.split('\n')[0]]).toEqual([
      0,
      expect.stringMatching(new RegExp(`^Usage: ${name}[ |]`)),
    ]);
  },
);

test.each([
  [64, 'an option that does not exist', ['account', 'list', '--nonsense']],
  [64, 'a missing argument', ['account', 'create']],
  [4, 'a database that does not run', ['sink', 'list']],
])('exits with %i for %s', async (exitCode, _, args) => {
  const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
  const ran = await runProgram(args, { ...surroundings, env });
  expect(ran).toBe(exitCode);
});

test('a misspelled command is answered with the name of the one that exists', async () => {
  let printed = '';
  const code = await runProgram(['upstraem'], { ...surroundings, err: (text) => (printed += text) });
  expect([code, printed]).toEqual([64, expect.stringContaining('upstream')]);
});

test.runIf(existsSync('/dev/full'))(
  'a command whose output can not be written says so, without a stack',
  () => {
    const full = openSync('/dev/full', 'w');
    const program = path.join(import.meta.dirname, '../../../server/cli.ts');
    const { status, stderr } = spawnSync(process.execPath, [program, '--version'], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    closeSync(full);
    expect([status, stderr]).toEqual([1, "daybook: standard output can't be written (ENOSPC).\n"]);
  },
);
