#!/usr/bin/env node
// The command of the npm package. It runs on Node 20 and newer, and runs Daybook on the Node version that
// was installed with it, or on this one where it is as new.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { nodes, needs } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).daybook;

/** The Node that npm has installed as an optional package, or this one. */
function findNode() {
  const name = nodes[`${process.platform}-${process.arch}`];
  try {
    const home = dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
    const file = join(home, 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
    if (existsSync(file)) return file;
  } catch {
    // The package was left out, or there is none for this machine.
  }
  return isNewEnough(process.versions.node) ? process.execPath : null;
}

function isNewEnough(version) {
  const [major, minor] = version.split('.').map(Number);
  const [neededMajor, neededMinor] = needs.split('.').map(Number);
  return major > neededMajor || (major === neededMajor && minor >= neededMinor);
}

const node = findNode();
if (node === null) {
  process.stderr.write(
    `daybook: Node ${needs} or newer is needed, and this is ${process.versions.node}. ` +
      'Install Daybook without --omit=optional, which brings its own Node, or run it on a newer Node.\n',
  );
  process.exit(1);
}
const args = [join(root, 'server/cli.js'), ...process.argv.slice(2)];
if (process.execve && process.platform !== 'win32') process.execve(node, [node, ...args], process.env);
const child = spawn(node, args, { stdio: 'inherit' });
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.once('exit', (code, signal) => process.exit(code ?? (signal ? 1 : 0)));
