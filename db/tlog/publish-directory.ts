import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/**
 * The directory that a log is published in, outside its database: the newest checkpoint, the last one of each
 * hour, the verifier keys, and the tree in tiles of 256 hashes, laid out as in c2sp.org/tlog-tiles. Any web
 * server can serve it. With it an auditor can locate the exact event that was changed later, and missing
 * checkpoints.
 */

/** The path: beside the data directory, so that losing one does not lose both. */
export function publishDirectory(config: { DAYBOOK_DATA: string; PUBLISH_DIR?: string | undefined }): string {
  return path.resolve(config.PUBLISH_DIR ?? `${config.DAYBOOK_DATA.replace(/[/\\]+$/, '')}.published`);
}

export const CHECKPOINT = 'checkpoint';
const KEYS = 'keys';
const HISTORY = 'checkpoints';
export const TILE_BYTES = NODE_CHILDREN * HASH_BYTES;

/** The path of a tile, or of an entry bundle, in the directory; a partial tile has its width appended. */
export function tilePath(level: number | 'entries', number: number, width: number = NODE_CHILDREN): string {
  const groups = String(number)
    .padStart(Math.ceil(String(number).length / 3) * 3, '0')
    .match(/\d{3}/g) as string[];
  const folders = groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group));
  const name = path.join('tile', String(level), ...folders);
  return width === NODE_CHILDREN ? name : path.join(`${name}.p`, String(width));
}

/** Writes a tile. A full tile replaces its partial ones. */
export function writeTile(directory: string, level: number, number: number, hashes: Buffer): Promise<void> {
  return writeWide(directory, tilePath(level, number, hashes.length / HASH_BYTES), hashes);
}

/** Writes an entry bundle of `count` entries, like a tile. */
export function writeBundle(
  directory: string,
  number: number,
  { bundle, count }: { bundle: Buffer; count: number },
): Promise<void> {
  return writeWide(directory, tilePath('entries', number, count), bundle);
}

async function writeWide(directory: string, name: string, bytes: Buffer): Promise<void> {
  const file = path.join(directory, name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeAtomically(file, bytes);
  if (!path.dirname(file).endsWith('.p')) await rm(`${file}.p`, { recursive: true, force: true });
}

/** The newest checkpoint note; null before the first one. */
export function readCheckpointFile(directory: string): Promise<string | null> {
  return readFile(path.join(directory, CHECKPOINT), 'utf8').catch(nullIfMissing);
}

/** The file of the last checkpoint of an hour: `checkpoints/2026-11-23/07`, in UTC. */
export function hourPath(publishedAt: Date): string {
  const [day = '', time = ''] = publishedAt.toISOString().split('T');
  return path.join(HISTORY, day, time.slice(0, 2));
}

/**
 * Writes the newest checkpoint, also as the last one of its hour, and the lines of all keys that have signed,
 * the newest last.
 * @param publishedAt the time that is stored with the checkpoint: old stored ones are thinned out to the last
 *   one of each hour.
 */
export async function writeCheckpointFile(
  directory: string,
  { note, publishedAt }: { note: string; publishedAt: Date },
  verifierKeys: readonly string[],
): Promise<void> {
  const hour = path.join(directory, hourPath(publishedAt));
  await mkdir(path.dirname(hour), { recursive: true });
  await writeAtomically(
    path.join(directory, KEYS),
    Buffer.from(verifierKeys.map((line) => `${line}\n`).join('')),
  );
  await writeAtomically(path.join(directory, CHECKPOINT), Buffer.from(note));
  await writeAtomically(hour, Buffer.from(note));
  const handle = await open(directory);
  await handle.sync();
  await handle.close();
}

/** The last checkpoint of each hour, the oldest first, with the path of its file in the directory. */
export async function readCheckpointHistory(directory: string): Promise<{ file: string; note: string }[]> {
  const history: { file: string; note: string }[] = [];
  for (const day of await sortedNames(path.join(directory, HISTORY)))
    for (const hour of await sortedNames(path.join(directory, HISTORY, day))) {
      const file = path.join(HISTORY, day, hour);
      const note = await readFile(path.join(directory, file), 'utf8').catch(nullIfMissing);
      if (note !== null && !hour.endsWith(PARTIAL)) history.push({ file, note });
    }
  return history;
}

async function sortedNames(directory: string): Promise<string[]> {
  return ((await readdir(directory).catch(nullIfMissing)) ?? []).toSorted();
}

/** The lines of the keys that have signed, the newest last. */
export async function readVerifierKeys(directory: string): Promise<string[]> {
  const text = await readFile(path.join(directory, KEYS), 'utf8').catch(nullIfMissing);
  return text?.split('\n').filter((line) => line !== '') ?? [];
}

/**
 * The published leaf hashes of the events from position `256 × number + 1` on; null if the tile was not
 * published.
 */
export async function readLeafTile(directory: string, number: number): Promise<Buffer | null> {
  const full = path.join(directory, tilePath(0, number));
  const tile = await readFile(full).catch(nullIfMissing);
  if (tile) return tile;
  const widths = (await readdir(`${full}.p`).catch(nullIfMissing)) ?? [];
  const widest = Math.max(0, ...widths.map(Number).filter((width) => width > 0 && width < NODE_CHILDREN));
  return widest === 0 ? null : readFile(path.join(`${full}.p`, String(widest))).catch(nullIfMissing);
}

/** A tile of a level above the leaves in a tree of this size; null if it was not published. */
export async function readNodeTile(
  directory: string,
  size: number,
  level: number,
  number: number,
): Promise<Buffer | null> {
  const width = Math.min(NODE_CHILDREN, Math.floor(size / NODE_CHILDREN ** level) - number * NODE_CHILDREN);
  for (const name of [tilePath(level, number), tilePath(level, number, width)]) {
    const bytes = await readFile(path.join(directory, name)).catch(() => null);
    if (bytes !== null) return bytes;
  }
  return null;
}

/** Moves the published files of an abandoned epoch to a subdirectory, where they stay readable. */
export async function archiveEpoch(directory: string, epoch: number): Promise<void> {
  const target = path.join(directory, `epoch-${epoch}`);
  await mkdir(target, { recursive: true });
  for (const name of [CHECKPOINT, KEYS, HISTORY, 'tile']) {
    await rename(path.join(directory, name), path.join(target, name)).catch(nullIfMissing);
  }
}

const PARTIAL = '.partial';

/** Replaces a file atomically, also across a power failure. */
async function writeAtomically(file: string, bytes: Buffer): Promise<void> {
  await writeFile(file + PARTIAL, bytes, { flush: true });
  await rename(file + PARTIAL, file);
}

function nullIfMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
  throw error;
}
