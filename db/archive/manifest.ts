import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { Hash } from '#db/archive/line.ts';
import { StoreError } from '#db/postgres/connect.ts';

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
  batch_count: z.int().positive(),
  /** The formats of its batches. */
  formats: z.array(z.string()),
  /** The chain values of the batch before the file, and of its last one. */
  chain_before: Hash,
  chain_after: Hash,
  /** Its control events, which the database has, too: their number and the SHA-256 of their leaf hashes. */
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

/** The extension of files. */
export const FILE_EXTENSION = '.log.zst';
/** The name of a partition's file. Its manifest has the same name with another extension. */
export const fileName = (partition: string): string => `${partition}${FILE_EXTENSION}`;
export const manifestName = (file: string): string => `${path.basename(file, FILE_EXTENSION)}.manifest.json`;

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
  const manifest = path.join(path.dirname(file), manifestName(file));
  try {
    return shape.parse(JSON.parse(await readFile(manifest, 'utf8')));
  } catch (error) {
    throw new StoreError(`${manifest} is not the manifest of ${what}, or can't be read`, { cause: error });
  }
}
