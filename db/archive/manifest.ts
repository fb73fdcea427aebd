import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { Link } from '#db/archive/line.ts';
import { StoreError } from '#db/postgres/connect.ts';

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

/**
 * The proof of a range against a signed checkpoint: the hashes of the complete subtrees to its left and to
 * its right, as enumerated by `subtreesOf`. With the leaves of the range they give the root.
 */
export const Proof = z.strictObject({
  checkpoint: z.string(),
  keys: z.array(z.string()),
  before: z.array(Hash),
  after: z.array(Hash),
});
export type Proof = z.infer<typeof Proof>;

/**
 * The manifest of a file, stored beside it, for managing archives without opening them. Everything but the
 * file's name, size and digest is verified from the file's content.
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
  /** Batches with events in the file. A batch across a border is counted in both files. */
  batch_count: z.int().positive(),
  /** The leaf formats of its batches. */
  formats: z.array(z.string()),
  /** The chain links of the last batch that ended before the file, and of the last one that ended in it. */
  chain_before: Link,
  chain_after: Link,
  /**
   * Its control events, which are retained in the database: their number and the SHA-256 of their leaf
   * hashes.
   */
  control_count: z.int().nonnegative(),
  control_sha256: Hash,
  made_at: z.iso.datetime(),
});
export type Manifest = z.infer<typeof Manifest>;

/** The manifest of any file: of a partition, or of an exported range, whose `partition` is null. */
export const FileManifest = Manifest.extend({
  partition: z.int().nonnegative().nullable(),
  proof: Proof.optional(),
});
export type FileManifest = z.infer<typeof FileManifest>;

/** The name of a partition's file. Its manifest has the same name with another extension. */
export const fileName = (partition: string): string => `${partition}.ndjson.zst`;
export const manifestName = (file: string): string => file.replace(/\.ndjson\.zst$/, '.manifest.json');

/**
 * Reads the manifest of a partition's file.
 * @throws {StoreError} when it can't be read or is invalid.
 */
export async function readManifest(file: string): Promise<Manifest> {
  return parseBeside(file, Manifest, 'an archived partition');
}

/** Reads the manifest of any file. @throws {StoreError} when it can't be read or is invalid. */
export async function readFileManifest(file: string): Promise<FileManifest> {
  return parseBeside(file, FileManifest, 'an exported range of a log');
}

async function parseBeside<T>(file: string, shape: z.ZodType<T>, what: string): Promise<T> {
  const manifest = path.join(path.dirname(file), manifestName(path.basename(file)));
  try {
    return shape.parse(JSON.parse(await readFile(manifest, 'utf8')));
  } catch (error) {
    throw new StoreError(`${manifest} is not the manifest of ${what}, or can't be read`, { cause: error });
  }
}
