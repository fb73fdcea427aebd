import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { StoreError } from '#db/postgres/connect.ts';

const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const Count = z.int().nonnegative();
const Name = z.string().regex(/^[a-z0-9_]+$/);

/** A table's file: the rows as `copy … to stdout` writes them, compressed. */
export const TableFile = z.strictObject({
  table: z.string().regex(/^[a-z0-9_]+\.[a-z0-9_]+$/),
  columns: z.array(Name).min(1),
  file: z.string().regex(/^[\w.]+\.copy\.zst$/),
  rows: Count,
  bytes: Count,
  sha256: Hash,
});
export type TableFile = z.infer<typeof TableFile>;

/** Where a log stops agreeing with its chain, and in what way. */
const Damage = z.strictObject({ position: Count, problem: z.string() });

/** What a backup holds. It says nothing that a verification takes on trust. */
export const Manifest = z.strictObject({
  backup: z.literal('daybook backup 1'),
  log_id: z.uuid(),
  /** The newest migration that the database had had. */
  migration: z.string().regex(/^\d{4}_[a-z0-9_]+$/),
  postgres: z.string(),
  /** The newest event, when it was written, and the chain up to it. Null in an empty log. */
  head: z.strictObject({ position: Count, at: z.iso.datetime(), chain: Hash }).nullable(),
  /** The newest checkpoint that was signed by then, as it was published; null where none was. */
  checkpoint: z.string().nullable(),
  /** The numbers of the parts of the log that are in this backup; what was archived is not. */
  partitions: z.array(Count),
  /** Where the log stopped agreeing with its chain when it was copied: it is to be found in here as well. */
  damage: Damage.nullable(),
  files: z.array(TableFile),
  /** By the clock of Postgres: the moment that all of this is of. */
  taken_at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
});
export type Manifest = z.infer<typeof Manifest>;

export const MANIFEST_FILE = 'manifest.json';

/** @throws {StoreError} when there is no backup in the directory, or only a part of one. */
export async function readManifest(directory: string): Promise<Manifest> {
  const file = path.join(directory, MANIFEST_FILE);
  try {
    return Manifest.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new StoreError(
      isMissing
        ? `${directory} holds no backup: there is no ${MANIFEST_FILE} in it`
        : `${file} is not the manifest of a backup, or is damaged`,
      { cause: error },
    );
  }
}

/** The file of a table; undefined where the backup has none. */
export const fileOf = ({ files }: Pick<Manifest, 'files'>, table: string): TableFile | undefined =>
  files.find((each) => each.table === table);
