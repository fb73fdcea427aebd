import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { Link } from '#db/archive/line.ts';
import { StoreError } from '#db/connect.ts';

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

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
  /** The links that it stands between: of the last batch that ended before it, and the last that ended in it. */
  chain_before: Link,
  chain_after: Link,
  /** Its control events, which stay in the database: how many, and the SHA-256 of their leaf hashes. */
  control_count: z.int().nonnegative(),
  control_sha256: Hash,
  made_at: z.iso.datetime(),
});
export type Manifest = z.infer<typeof Manifest>;

/** The name of a partition's file, from which its manifest's differs only in the ending. */
export const fileName = (partition: string): string => `${partition}.ndjson.zst`;
export const manifestName = (file: string): string => file.replace(/\.ndjson\.zst$/, '.manifest.json');

/**
 * The manifest that lies beside a file.
 * @throws {StoreError} when it can't be read or is none.
 */
export async function readManifest(file: string): Promise<Manifest> {
  const manifest = path.join(path.dirname(file), manifestName(path.basename(file)));
  try {
    return Manifest.parse(JSON.parse(await readFile(manifest, 'utf8')));
  } catch (error) {
    throw new StoreError(`${manifest} is not the manifest of an archived partition, or can't be read`, { cause: error });
  }
}
