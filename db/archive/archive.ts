import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { sql } from 'kysely';
import type { Client } from 'pg';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { readCandidate, readRetentionNeeds, retentionReason } from '#db/archive/eligibility.ts';
import { detachPartition, dropPartition, readAttachment } from '#db/archive/detach.ts';
import { exportPartition, type Partition } from '#db/archive/export.ts';
import { fileName, type Manifest, manifestName } from '#db/archive/manifest.ts';
import { type Predecessor, logStart, continuityDamage, verifyFile } from '#db/archive/verify.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { tryHoldLock } from '#db/postgres/locks.ts';
import { db, onlyRowOf, rowsOf } from '#db/schema/query.ts';

/**
 * The archive: full partitions of the log move from the database to files.
 *
 * A partition goes through five steps, each of which is atomic, so that a crash at any time is safe:
 * *exported* to a temporary name; *verified* by reading it back, every event and every link of the hash
 * chain; *named*, which makes it the file of this partition; *recorded*; *detached*. A run that finds a
 * partition before "recorded" starts it over, and continues one that is recorded. Dropping the detached table
 * is a separate, optional step. Control events and the headers of batches have tables of their own, which are
 * not archived.
 *
 * One run at a time: it holds a lock as long as its connection lasts.
 */
export type ArchiveOptions = {
  /** Connects as the owner, the only role that can detach a partition, with a long statement timeout. */
  connect: () => Promise<Client>;
  /** The directory of the files, shared by all hosts that archive. */
  directory: string;
  /** How many of the newest full partitions stay attached. At least one. */
  keep: number;
  /** Whether to drop tables once they are detached. */
  drop: boolean;
  signal?: AbortSignal;
  /** Called after each step. */
  onStep?: (step: Step, partition: string) => void | Promise<void>;
};

export type Step = 'exported' | 'verified' | 'named' | 'recorded' | 'detached' | 'dropped';

/** The partitions that a run processed, by name, and why the next one was not archived. */
export type ArchiveResult = {
  archived: string[];
  detached: string[];
  dropped: string[];
  waiting: string | null;
};

/** The suffix of files from an interrupted run. */
const PARTIAL = '.partial';

/**
 * Archives the partitions that nothing reads any more, from the oldest on.
 * @returns null when another run is in progress.
 * @throws {ArchiveDamageError} when a partition does not match its hash chain; it stays in the database.
 */
export async function archive(options: ArchiveOptions): Promise<ArchiveResult | null> {
  const client = await options.connect();
  try {
    if (!(await lockArchive(client))) return null;
    await mkdir(options.directory, { recursive: true, mode: 0o700 });
    await removePartial(options.directory);
    const result: ArchiveResult = { archived: [], detached: [], dropped: [], waiting: null };
    for (;;) {
      if (!(await detachRecorded(client, options, result)))
        return {
          ...result,
          waiting: 'a long-running reader of the log blocks detaching a partition',
        };
      options.signal?.throwIfAborted();
      const candidate = await readCandidate(client);
      if (candidate === null) return result;
      const why = retentionReason(candidate, await readRetentionNeeds(client), Math.max(1, options.keep));
      if (why !== null) return { ...result, waiting: `${candidate.name} not archived: ${why}` };
      await archivePartition(client, candidate, options);
      result.archived.push(candidate.name);
    }
  } finally {
    await closeClient(client);
  }
}

/** Takes the archive's lock for this connection. @returns false when another process has it. */
export async function lockArchive(client: Client): Promise<boolean> {
  return (await tryHoldLock(client, 'archive')) !== null;
}

/** Archives one partition up to the step "recorded". */
async function archivePartition(
  client: Client,
  partition: Partition,
  options: ArchiveOptions,
): Promise<void> {
  const { directory, signal } = options;
  const step = async (done: Step): Promise<void> => options.onStep?.(done, partition.name);
  const file = fileName(partition.name);
  const partial = path.join(directory, `${file}${PARTIAL}`);
  await exportPartition(client, partition, partial, signal);
  await step('exported');
  const contents = await verifyFile(partial, signal);
  const damage = continuityDamage(await readPredecessor(client, partition), contents);
  if (damage) throw new ArchiveDamageError(partition.name, damage);
  await step('verified');
  const manifest: Manifest = {
    ...contents,
    partition: partition.number,
    file,
    made_at: new Date().toISOString(),
  };
  // A run that lost its connection, and with it the lock, must not touch the files of another run.
  await client.query('select');
  await rename(partial, path.join(directory, file));
  await writeDurably(path.join(directory, manifestName(file)), `${JSON.stringify(manifest, null, 2)}\n`);
  await step('named');
  await client.query('select daybook.record_archived($1, $2)', [partition.number, manifest]);
  await step('recorded');
}

/**
 * Detaches recorded partitions, and drops them on request. Restored ones stay attached.
 * @returns false when one can't be detached yet.
 */
async function detachRecorded(
  client: Client,
  options: ArchiveOptions,
  result: ArchiveResult,
): Promise<boolean> {
  const archived = db
    .selectFrom('daybook.log_partition')
    .select(({ ref }) => ['name', ref('manifest').$castTo<Manifest>().as('manifest')])
    .where('archived_at', 'is not', null)
    .where('restored_at', 'is', null)
    .where(sql<boolean>`to_regclass('daybook.' || name) is not null`)
    .orderBy('number');
  for (const { name, manifest } of await rowsOf(client, archived)) {
    const attachment = await readAttachment(client, name);
    if (attachment === 'detached' && !options.drop) continue;
    await requireFile(options.directory, manifest, options.signal);
    if (attachment !== 'detached') {
      if (!(await detachPartition(client, name))) return false;
      result.detached.push(name);
      await options.onStep?.('detached', name);
    }
    if (options.drop) {
      await dropPartition(client, name);
      result.dropped.push(name);
      await options.onStep?.('dropped', name);
    }
  }
  return true;
}

/**
 * Checks, before data is removed from the database, that the file is in the directory and unchanged.
 * @throws {StoreError} when it is missing, as on a host with another directory.
 * @throws {ArchiveDamageError} when its digest is not the recorded one.
 */
export async function requireFile(
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<void> {
  const digest = createHash('sha256');
  try {
    await pipeline(createReadStream(path.join(directory, manifest.file)), digest, signal ? { signal } : {});
  } catch (error) {
    signal?.throwIfAborted();
    throw new StoreError(
      `${manifest.file} can't be read in the archive directory; its partition stays in the database`,
      { cause: error },
    );
  }
  if (digest.digest('hex') === manifest.sha256) return;
  throw new ArchiveDamageError(manifest.file, {
    position: manifest.first_position,
    problem: 'its SHA-256 is not the recorded one',
  });
}

/** The end of the partition before this one, as recorded in the database. */
async function readPredecessor(client: Client, { number }: Partition): Promise<Predecessor> {
  const { log_id, manifest } = await onlyRowOf(
    client,
    db
      .selectFrom('daybook.install as i')
      .leftJoin('daybook.log_partition as p', (join) => join.on('p.number', '=', number - 1))
      .select(({ ref }) => ['i.log_id', ref('p.manifest').$castTo<Manifest | null>().as('manifest')]),
  );
  if (manifest === null) return logStart(log_id);
  const { last_position, chain_after } = manifest;
  return { log_id, last_position, chain_after };
}

async function removePartial(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (name.endsWith(PARTIAL)) await rm(path.join(directory, name));
  }
}

/** Replaces a file atomically, also across a power failure. */
async function writeDurably(file: string, text: string): Promise<void> {
  await writeFile(`${file}${PARTIAL}`, text, { mode: 0o600, flush: true });
  await rename(`${file}${PARTIAL}`, file);
  const directory = await open(path.dirname(file));
  await directory.sync();
  await directory.close();
}
