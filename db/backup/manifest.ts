import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { StoreError } from '#db/postgres/connect.ts';

const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const Count = z.int().nonnegative();
const Name = z.string().regex(/^[a-z0-9_]+$/);

/** A table's file: the compressed output of `copy … to stdout`. */
export const TableFile = z.strictObject({
  table: z.string().regex(/^[a-z0-9_]+\.[a-z0-9_]+$/),
  columns: z.array(Name).min(1),
  file: z.string().regex(/^[\w.]+\.copy\.zst$/),
  rows: Count,
  bytes: Count,
  sha256: Hash,
});
export type TableFile = z.infer<typeof TableFile>;

/** The first position at which a log does not match its hash chain. */
const Damage = z.strictObject({ position: Count, problem: z.string() });

/** The manifest of a backup. Verification checks every fact in it. */
export const Manifest = z.strictObject({
  backup: z.literal('daybook backup 1'),
  log_id: z.uuid(),
  /** The newest migration applied to the database. */
  migration: z.string().regex(/^\d{4}_[a-z0-9_]+$/),
  postgres: z.string(),
  /** The newest event, its time, and the chain hash up to it; null for an empty log. */
  head: z.strictObject({ position: Count, at: z.iso.datetime(), chain: Hash }).nullable(),
  /** The newest checkpoint at that time, as a signed note; null if none was published. */
  checkpoint: z.string().nullable(),
  /** The numbers of the log's partitions in this backup. Archived ones are not included. */
  partitions: z.array(Count),
  /** The damage that the log already had when it was copied. */
  damage: Damage.nullable(),
  files: z.array(TableFile),
  /** The time of the snapshot, by the clock of Postgres. */
  taken_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
});
export type Manifest = z.infer<typeof Manifest>;

export const MANIFEST_FILE = 'manifest.json';

/** Reads a backup's manifest. @throws {StoreError} when the directory has no complete backup. */
export async function readManifest(directory: string): Promise<Manifest> {
  const file = path.join(directory, MANIFEST_FILE);
  try {
    return Manifest.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new StoreError(
      isMissing
        ? `${directory} is not a backup: it has no ${MANIFEST_FILE}`
        : `${file} is not the manifest of a backup, or is damaged`,
      { cause: error },
    );
  }
}

/** The file of a table; undefined if the backup does not include it. */
export const fileOf = ({ files }: Pick<Manifest, 'files'>, table: string): TableFile | undefined =>
  files.find((each) => each.table === table);
