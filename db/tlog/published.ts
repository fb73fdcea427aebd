import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/**
 * The directory that a log is published in, outside its database: the newest checkpoint, the keys
 * that sign, and the tree in tiles of 256 hashes, laid out as c2sp.org/tlog-tiles has it. Any web
 * server can serve it as it is. With it an auditor can name the very event that was changed later.
 */

/** Where it is: beside the data directory, not in it, so that what takes the one does not take both. */
export function publishDirectory(config: { DAYBOOK_DATA: string; PUBLISH_DIR?: string | undefined }): string {
  return path.resolve(config.PUBLISH_DIR ?? `${config.DAYBOOK_DATA.replace(/[/\\]+$/, '')}.published`);
}

export const CHECKPOINT = 'checkpoint';
const KEYS = 'keys';
export const TILE_BYTES = NODE_CHILDREN * HASH_BYTES;

/** The path of a tile below the directory; one that is not full has its width behind it. */
export function tilePath(level: number, number: number, width: number = NODE_CHILDREN): string {
  const groups = String(number)
    .padStart(Math.ceil(String(number).length / 3) * 3, '0')
    .match(/\d{3}/g) as string[];
  const folders = groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group));
  const name = path.join('tile', String(level), ...folders);
  return width === NODE_CHILDREN ? name : path.join(`${name}.p`, String(width));
}

/** Puts a tile in its place. Once it is full, what stood for it before goes. */
export async function writeTile(
  directory: string,
  level: number,
  number: number,
  hashes: Buffer,
): Promise<void> {
  const width = hashes.length / HASH_BYTES;
  const file = path.join(directory, tilePath(level, number, width));
  await mkdir(path.dirname(file), { recursive: true });
  await writeWhole(file, hashes);
  if (width === NODE_CHILDREN) await rm(`${file}.p`, { recursive: true, force: true });
}

/** The newest checkpoint there, as it was signed; null where none is. */
export function readCheckpointFile(directory: string): Promise<string | null> {
  return readFile(path.join(directory, CHECKPOINT), 'utf8').catch(absent);
}

/** Publishes a checkpoint and the lines of the keys that have ever signed, the newest last. */
export async function writeCheckpointFile(
  directory: string,
  note: string,
  verifierKeys: readonly string[],
): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeWhole(path.join(directory, KEYS), Buffer.from(verifierKeys.map((line) => `${line}\n`).join('')));
  await writeWhole(path.join(directory, CHECKPOINT), Buffer.from(note));
  const folder = await open(directory);
  await folder.sync();
  await folder.close();
}

/** The lines of the keys that have signed. */
export async function readVerifierKeys(directory: string): Promise<string[]> {
  const text = await readFile(path.join(directory, KEYS), 'utf8').catch(absent);
  return text?.split('\n').filter((line) => line !== '') ?? [];
}

/**
 * Leaf hashes of the events from position `256 × number + 1` on, as many as were published; null where none
 * were.
 */
export async function readLeafTile(directory: string, number: number): Promise<Buffer | null> {
  const full = path.join(directory, tilePath(0, number));
  const tile = await readFile(full).catch(absent);
  if (tile) return tile;
  const widths = (await readdir(`${full}.p`).catch(absent)) ?? [];
  const widest = Math.max(0, ...widths.map(Number).filter((width) => width > 0 && width < NODE_CHILDREN));
  return widest === 0 ? null : readFile(path.join(`${full}.p`, String(widest))).catch(absent);
}

/** Sets what was published of an epoch that was given up aside, where it stays to be looked at. */
export async function setAside(directory: string, epoch: number): Promise<void> {
  const aside = path.join(directory, `epoch-${epoch}`);
  await mkdir(aside, { recursive: true });
  for (const name of [CHECKPOINT, KEYS, 'tile']) {
    await rename(path.join(directory, name), path.join(aside, name)).catch(absent);
  }
}

/** Under its name there is either what was before, or all of it, also after a loss of power. */
async function writeWhole(file: string, bytes: Buffer): Promise<void> {
  await writeFile(`${file}.partial`, bytes, { flush: true });
  await rename(`${file}.partial`, file);
}

function absent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
  throw error;
}
