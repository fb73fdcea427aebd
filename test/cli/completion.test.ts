import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '#server/cli/program.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/** Completion in real shells, where they are installed. */

const LINES: [line: string, has: string[], hasNot: string[]][] = [
  ['st', ['start', 'statement', 'statement-email'], ['key']],
  ['key ch', ['check'], ['create']],
  ['key check ID --ro', ['--route'], ['--model']],
  ['statement acme --format p', ['pdf', 'proof'], ['json']],
];

let directory: string;
beforeAll(async () => {
  directory = await makeTestDirectory();
});
afterAll(async () => {
  await removeTestDirectory(directory);
});

/** How each shell is asked what it offers at the end of a line. */
const ASK: Record<string, (script: string, words: string[]) => string> = {
  bash: (script, words) =>
    `. '${script}'; COMP_WORDS=(daybook ${words.join(' ')}); COMP_CWORD=${words.length}
     _daybook; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // Without its line editor the shell offers nothing, so what would be added is printed.
  zsh: (script, words) =>
    `compdef() { :; }; compadd() { shift; print -l -- "$@"; }; . '${script}'
     words=(daybook ${words.join(' ')}); CURRENT=$#words; _daybook`,
  fish: (script, words) => `source '${script}'; complete --do-complete 'daybook ${words.join(' ')}'`,
};

describe.each(Object.keys(ASK))('%s', (shell) => {
  const program = ['/bin', '/usr/bin', '/usr/local/bin'].map((at) => path.join(at, shell)).find(existsSync);

  test.skipIf(program === undefined)('offers commands, options and choices', async () => {
    let script = '';
    const surroundings = { env: {}, out: (text: string) => (script += text), err: () => undefined };
    expect(await runProgram(['completion', shell], surroundings)).toBe(0);
    const file = path.join(directory, shell);
    writeFileSync(file, script);
    for (const [line, has, hasNot] of LINES) {
      const words = line.split(' ');
      const asked = spawnSync(program as string, ['-c', ASK[shell]?.(file, words) ?? ''], {
        encoding: 'utf8',
      });
      const begun = words.at(-1) ?? '';
      const offered = asked.stdout.split('\n').filter((word) => word.startsWith(begun));
      expect([line, ...offered]).toEqual(expect.arrayContaining([line, ...has]));
      expect([line, offered.filter((word) => hasNot.includes(word))]).toEqual([line, []]);
    }
  });
});
