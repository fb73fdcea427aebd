import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/**
 * `npm run check`: runs the checkers that are given as arguments side by side, since each of them uses one
 * core for part of its time. Prints the output of each when it ends, and fails if one fails.
 */
async function run(command: string): Promise<void> {
  const child = spawn(command, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close') as Promise<[number | null]>;
  const [output, problems, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  process.stdout.write(`> ${command}\n${output}`);
  process.stderr.write(problems);
  if (code !== 0) process.exitCode = 1;
}

await Promise.all(process.argv.slice(2).map(run));
