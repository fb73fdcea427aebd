import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { Link } from '#db/archive/line.ts';
import { StoreError } from '#db/postgres/connect.ts';

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

/**
 * What proves a part by a signed checkpoint of the whole: the hashes of the complete subtrees to its
 * left and to its right, as `subtreesOf` counts them. With the part's own leaves they come to the root.
 */
export const Proof = z.strictObject({
  checkpoint: z.string(),
  keys: z.array(z.string()),
  before: z.array(Hash),
  after: z.array(Hash),
});
export type Proof = z.infer<typeof Proof>;

/**
 * What a file holds, told beside it: enough to look after archives without opening them. Everything
 * but the file's own name, size and digest is proved by what is in the file.
 */
export const Manifest = z.strictObject({
  archive: z.literal('daybook log 1'),
  log_id: z.uuid(),
  shard: z.int().nonnegative(),
  partition: z.int().nonnegative(),
  file: z.string(),
  bytes: z.int().positive(),
  sha256: Hash,
  first_position: z.int().positive(),
  last_position: z.int().positive(),
  event_count: z.int().positive(),
  /** Batches that touch it; one that lies across a border is counted in both files. */
  batch_count: z.int().positive(),
  /** The formats of leaf hashes that its batches name. */
  formats: z.array(z.string()),
  /**
   * The links that it stands between: of the last batch that ended before it, and the last that ended in it.
   */
  chain_before: Link,
  chain_after: Link,
  /** Its control events, which stay in the database: how many, and the SHA-256 of their leaf hashes. */
  control_count: z.int().nonnegative(),
  control_sha256: Hash,
  made_at: z.iso.datetime(),
});
export type Manifest = z.infer<typeof Manifest>;

/**
 * The same of any file: of a partition, or of a part whose borders somebody has chosen, which then has no
 * number.
 */
export const FileManifest = Manifest.extend({
  partition: z.int().nonnegative().nullable(),
  proof: Proof.optional(),
});
export type FileManifest = z.infer<typeof FileManifest>;

/** The name of a partition's file, from which its manifest's differs only in the ending. */
export const fileName = (partition: string): string => `${partition}.ndjson.zst`;
export const manifestName = (file: string): string => file.replace(/\.ndjson\.zst$/, '.manifest.json');

/**
 * The manifest that lies beside the file of a partition.
 * @throws {StoreError} when it can't be read or is none.
 */
export async function readManifest(file: string): Promise<Manifest> {
  return parseBeside(file, Manifest, 'an archived partition');
}

/** The manifest that lies beside any file. @throws {StoreError} when it can't be read or is none. */
export async function readFileManifest(file: string): Promise<FileManifest> {
  return parseBeside(file, FileManifest, 'an exported part of a log');
}

async function parseBeside<T>(file: string, shape: z.ZodType<T>, what: string): Promise<T> {
  const manifest = path.join(path.dirname(file), manifestName(path.basename(file)));
  try {
    return shape.parse(JSON.parse(await readFile(manifest, 'utf8')));
  } catch (error) {
    throw new StoreError(`${manifest} is not the manifest of ${what}, or can't be read`, { cause: error });
  }
}
