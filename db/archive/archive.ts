import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import { readCandidate, readNeeds, whyKept } from '#db/archive/choose.ts';
import { detachPartition, dropPartition, standingOf } from '#db/archive/detach.ts';
import { exportPartition, type Partition } from '#db/archive/export.ts';
import { fileName, type Manifest, manifestName } from '#db/archive/manifest.ts';
import {
  ArchiveDamageError,
  type Before,
  beginning,
  breach,
  type Contents,
  verifyFile,
} from '#db/archive/verify.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { LOCKS } from '#db/postgres/locks.ts';

/**
 * The archive: full partitions of the log leave the database for files.
 *
 * A partition goes through five steps, each of which is either done or not, whoever dies when:
 * *exported* to a temporary name; *verified* by reading it back, every event and every link of the
 * chain; *named*, which makes it the file of this partition; *recorded*, together with its control
 * events, which stay readable in the database; *detached*. A run that finds a partition before
 * "recorded" begins with it anew, and one behind it goes on there. Dropping the detached table is a
 * step of its own, taken only where it is asked for.
 *
 * One run at a time: it holds a lock for as long as its connection lasts.
 */
export type ArchiveOptions = {
  /** Connects as the owner, who alone may take a table out of the log; for exports, so with patience. */
  connect: () => Promise<Client>;
  /** Where the files lie: for all who archive, the same place. */
  directory: string;
  /** How many of the newest full partitions stay in the log. At least one. */
  keep: number;
  /** Whether tables are dropped once they are detached. */
  drop: boolean;
  signal?: AbortSignal;
  /** Told of each step that was taken, by its name in the present tense of {@link Step}. */
  onStep?: (step: Step, partition: string) => void | Promise<void>;
};

export type Step = 'exported' | 'verified' | 'named' | 'recorded' | 'detached' | 'dropped';

/**
 * What a run has done, by the names of partitions, and why the next one stays; null when another run was
 * under way.
 */
export type ArchiveResult = {
  archived: string[];
  detached: string[];
  dropped: string[];
  waiting: string | null;
};

/** What a run that was interrupted has left. */
const PARTIAL = '.partial';

/**
 * Archives what nothing needs in the log any more, from the oldest on.
 * @returns null when another run is under way.
 * @throws {ArchiveDamageError} where the log does not agree with its chain: nothing of that leaves it.
 */
export async function archive(options: ArchiveOptions): Promise<ArchiveResult | null> {
  const client = await options.connect();
  try {
    if (!(await lockArchive(client))) return null;
    await mkdir(options.directory, { recursive: true, mode: 0o700 });
    await removePartial(options.directory);
    const result: ArchiveResult = { archived: [], detached: [], dropped: [], waiting: null };
    for (;;) {
      if (!(await takeOut(client, options, result)))
        return {
          ...result,
          waiting: 'whoever reads the log for long is in the way of taking a part out of it',
        };
      options.signal?.throwIfAborted();
      const candidate = await readCandidate(client);
      if (candidate === null) return result;
      const why = whyKept(candidate, await readNeeds(client), Math.max(1, options.keep));
      if (why !== null) return { ...result, waiting: `${candidate.name} stays: ${why}` };
      await record(client, candidate, options);
      result.archived.push(candidate.name);
    }
  } finally {
    await closeClient(client);
  }
}

/** Keeps others from the archive until this connection ends. @returns false when somebody else is at it. */
export async function lockArchive(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>(
    `select pg_try_advisory_lock(${LOCKS.archive}) as held`,
  );
  return rows[0]?.held === true;
}

/** From the log to a file that was read back and is known to the database. */
async function record(client: Client, partition: Partition, options: ArchiveOptions): Promise<void> {
  const { directory, signal } = options;
  const step = async (done: Step): Promise<void> => options.onStep?.(done, partition.name);
  const file = fileName(partition.name);
  const partial = path.join(directory, `${file}${PARTIAL}`);
  await exportPartition(client, partition, partial, signal);
  await step('exported');
  const contents = await verifyFile(partial, undefined, signal);
  const damage = breach(await readBefore(client, partition), contents);
  if (damage) throw new ArchiveDamageError(partition.name, damage);
  await step('verified');
  const manifest = manifestOf(contents, partition.number, file);
  // Whoever has lost the lock with its connection must not touch what another run may have named.
  await client.query('select');
  await rename(partial, path.join(directory, file));
  await writeDurably(path.join(directory, manifestName(file)), `${JSON.stringify(manifest, null, 2)}\n`);
  await step('named');
  await client.query('select daybook.keep_partition($1, $2, $3)', [
    partition.number,
    manifest,
    contents.openLeaves,
  ]);
  await step('recorded');
}

/**
 * Detaches what is recorded, and drops it where that is wanted. What was restored stays. @returns false when
 * one can't leave yet.
 */
async function takeOut(client: Client, options: ArchiveOptions, result: ArchiveResult): Promise<boolean> {
  const { rows } = await client.query<{ name: string; manifest: Manifest }>(
    `select name, manifest from daybook.log_partition where archived_at is not null and restored_at is null
      and to_regclass('daybook.' || name) is not null order by number`,
  );
  for (const { name, manifest } of rows) {
    const standing = await standingOf(client, name);
    if (standing === 'detached' && !options.drop) continue;
    await requireFile(options.directory, manifest, options.signal);
    if (standing !== 'detached') {
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
 * That the file is where it is looked for, to the byte as it was verified, now that the database is to let
 * go.
 * @throws {StoreError} when it is not there, as on a machine that has another directory.
 * @throws {ArchiveDamageError} when it is not the one that was recorded.
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
      `${manifest.file} is not readable in the directory of the archive: nothing of it is taken from the database`,
      { cause: error },
    );
  }
  if (digest.digest('hex') === manifest.sha256) return;
  throw new ArchiveDamageError(manifest.file, {
    position: manifest.first_position,
    problem: 'it is not the file that was recorded',
  });
}

/** What the file of a partition has to continue, as the database has recorded it. */
async function readBefore(client: Client, { number }: Partition): Promise<Before> {
  const { rows } = await client.query<{
    log_id: string;
    manifest: Manifest | null;
    open_leaves: Buffer | null;
  }>(
    `select i.log_id, p.manifest, p.open_leaves
      from daybook.install i left join daybook.log_partition p on p.number = $1 - 1`,
    [number],
  );
  const { log_id, manifest, open_leaves } = rows[0] as (typeof rows)[number];
  if (manifest === null || open_leaves === null) return beginning(log_id);
  return {
    log_id,
    last_position: manifest.last_position,
    chain_after: manifest.chain_after,
    openLeaves: open_leaves,
  };
}

function manifestOf(contents: Contents, partition: number, file: string): Manifest {
  const { leavesBefore: _before, openLeaves: _open, lastLink: _last, ...facts } = contents;
  return { ...facts, partition, file, made_at: new Date().toISOString() };
}

async function removePartial(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (name.endsWith(PARTIAL)) await rm(path.join(directory, name));
  }
}

/** Under its name there is either what was before, or all of it, also after a loss of power. */
async function writeDurably(file: string, text: string): Promise<void> {
  await writeFile(`${file}${PARTIAL}`, text, { mode: 0o600, flush: true });
  await rename(`${file}${PARTIAL}`, file);
  const directory = await open(path.dirname(file));
  await directory.sync();
  await directory.close();
}
