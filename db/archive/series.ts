import { basename } from 'node:path';
import type { Client } from 'pg';
import { verifyKept } from '#db/archive/kept.ts';
import type { Manifest } from '#db/archive/manifest.ts';
import {
  ArchiveDamageError,
  type Before,
  beginning,
  breach,
  type Contents,
  verifyArchive,
} from '#db/archive/verify.ts';
import { type Standing, standingOf } from '#db/archive/detach.ts';

/**
 * Checks files by themselves, and that each continues the one before it. Where the first begins the
 * log, so does its chain; otherwise its first link is what has to be compared with another source.
 * @param files in any order.
 * @param onFile told of each that is sound, in the order of the log.
 * @throws {ArchiveDamageError} at the first thing that is wrong.
 */
export async function verifySeries(
  files: readonly string[],
  onFile: (file: string, manifest: Manifest) => void,
): Promise<void> {
  const found: { file: string; contents: Contents; manifest: Manifest }[] = [];
  for (const file of files) found.push({ file, ...(await verifyArchive(file)) });
  let before: Before | undefined;
  for (const { file, contents, manifest } of found.toSorted(
    (one, other) => one.contents.first_position - other.contents.first_position,
  )) {
    if (contents.first_position === 1) before = beginning(contents.log_id);
    const damage = before && breach(before, contents);
    if (damage) throw new ArchiveDamageError(basename(file), damage);
    onFile(file, manifest);
    before = contents;
  }
}

/** A partition of the log, as far as it has come. */
export type Listed = {
  name: string;
  first_position: number;
  last_position: number;
  standing: Standing;
  archived_at: string | null;
  restored_at: string | null;
  manifest: Manifest | null;
};

/** Every partition that was ever made, in order. */
export async function listPartitions(client: Client): Promise<Listed[]> {
  const { rows } = await client.query<
    Omit<Listed, 'standing' | 'archived_at' | 'restored_at'> & {
      archived_at: Date | null;
      restored_at: Date | null;
    }
  >(
    `select name, greatest(1, first_position)::float8 as first_position, (end_position - 1)::float8 as last_position,
        archived_at, restored_at, manifest
      from daybook.log_partition order by number`,
  );
  const listed: Listed[] = [];
  for (const row of rows) {
    const standing = await standingOf(client, row.name);
    listed.push({
      ...row,
      standing,
      archived_at: row.archived_at?.toISOString() ?? null,
      restored_at: row.restored_at?.toISOString() ?? null,
    });
  }
  return listed;
}

/** Checks the control events that stayed of every archived partition. @throws {ArchiveDamageError} */
export async function verifyAllKept(client: Client): Promise<void> {
  for (const { manifest } of await listPartitions(client)) if (manifest) await verifyKept(client, manifest);
}
