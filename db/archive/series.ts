import { basename } from 'node:path';
import type { Client } from 'pg';
import { db, rowsOf } from '#db/schema/query.ts';
import { verifyControlEvents } from '#db/archive/control-events.ts';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import type { Manifest } from '#db/archive/manifest.ts';
import {
  type Predecessor,
  logStart,
  continuityDamage,
  type Contents,
  verifyArchive,
} from '#db/archive/verify.ts';
import { type Attachment, readAttachment } from '#db/archive/detach.ts';

/**
 * Verifies files, and that each continues the one before it. If the first file starts the log, its chain must
 * start at the genesis value; otherwise its first link has to be compared with another source.
 * @param files in any order.
 * @param onFile called for each valid file, in the order of the log.
 * @throws {ArchiveDamageError} at the first damage.
 */
export async function verifySeries(
  files: readonly string[],
  onFile: (file: string, manifest: Manifest) => void,
): Promise<void> {
  const found: { file: string; contents: Contents; manifest: Manifest }[] = [];
  for (const file of files) found.push({ file, ...(await verifyArchive(file)) });
  let before: Predecessor | undefined;
  for (const { file, contents, manifest } of found.toSorted(
    (one, other) => one.contents.first_position - other.contents.first_position,
  )) {
    if (contents.first_position === 1) before = logStart(contents.log_id);
    const damage = before && continuityDamage(before, contents);
    if (damage) throw new ArchiveDamageError(basename(file), damage);
    onFile(file, manifest);
    before = contents;
  }
}

/** A partition of the log and its archiving status. */
export type PartitionStatus = {
  name: string;
  first_position: number;
  last_position: number;
  attachment: Attachment;
  archived_at: string | null;
  restored_at: string | null;
  manifest: Manifest | null;
};

/** Every partition ever created, in order. */
export async function listPartitions(client: Client): Promise<PartitionStatus[]> {
  const query = db
    .selectFrom('daybook.log_partition')
    .select(['name', 'first_position', 'end_position', 'archived_at', 'restored_at'])
    .select(({ ref }) => ref('manifest').$castTo<Manifest | null>().as('manifest'))
    .orderBy('number');
  const listed: PartitionStatus[] = [];
  for (const row of await rowsOf(client, query)) {
    listed.push({
      name: row.name,
      first_position: Math.max(1, Number(row.first_position)),
      last_position: Number(row.end_position) - 1,
      attachment: await readAttachment(client, row.name),
      archived_at: row.archived_at?.toISOString() ?? null,
      restored_at: row.restored_at?.toISOString() ?? null,
      manifest: row.manifest,
    });
  }
  return listed;
}

/** Verifies the control events of every archived partition. @throws {ArchiveDamageError} */
export async function verifyArchivedControl(client: Client): Promise<void> {
  for (const { manifest } of await listPartitions(client))
    if (manifest) await verifyControlEvents(client, manifest);
}
