import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { archive, type ArchiveOptions, type ArchiveResult } from '#db/archive/archive.ts';
import { ARCHIVE_STATEMENT_TIMEOUT_MS } from '#db/bounds.ts';
import type { RequestEvent } from '#db/events/events.ts';
import { retireInstance } from '#db/instances/instance.ts';
import { connectAs } from '#db/postgres/connect.ts';
import { createDatabase, type TestDatabase } from '../database.ts';
import { makeTestDirectory, removeTestDirectory } from '../directory.ts';
import { accepted, openWriter, registered, settled, suspended } from '../log/log-writer.ts';

/** A log in small partitions, with a directory for its archive. */
export type PartitionedLog = AsyncDisposable & {
  database: TestDatabase;
  directory: string;
  /**
   * Appends requests and accounts in batches of these sizes, in rotation, until the head reaches `upTo`.
   */
  append(upTo: number, sizes?: readonly number[]): Promise<void>;
  /** The same; then marks everything as projected, as a worker would have done. */
  fill(upTo: number, sizes?: readonly number[]): Promise<void>;
  /** Runs the archive, keeping one full partition. */
  archive(more?: Partial<ArchiveOptions>): Promise<ArchiveResult | null>;
  /** The files of the archive, in the order of the log. */
  files(): Promise<string[]>;
};

/** Replaces the partitions of an empty log, which the migration makes too large to fill. */
export async function makePartitions(database: TestDatabase, size: number, ahead: number): Promise<void> {
  const owner = await connectOwner(database);
  try {
    for (const name of ['log_000000', 'log_000001']) {
      await owner.query(`alter table daybook.log detach partition daybook.${name}`);
      await owner.query(`drop table daybook.${name}`);
    }
    await owner.query('delete from daybook.log_partition');
    await owner.query('update daybook.install set partition_size = $1', [size]);
    await owner.query('select daybook.create_partitions($1)', [ahead]);
  } finally {
    await owner.end();
  }
}

/** @param ahead the number of partitions created after the first one. */
export async function createPartitionedLog(size: number, ahead: number): Promise<PartitionedLog> {
  const database = await createDatabase();
  const directory = await makeTestDirectory();
  await makePartitions(database, size, ahead);
  return {
    database,
    directory,
    append: (upTo, sizes = SIZES) => appendUpTo(database, upTo, sizes),
    async fill(upTo, sizes = SIZES) {
      await appendUpTo(database, upTo, sizes);
      await markProjected(database);
    },
    archive: (more = {}) =>
      archive({ connect: () => connectOwner(database), directory, keep: 1, drop: false, ...more }),
    files: async () =>
      (await readdir(directory))
        .filter((name) => name.endsWith('.zst'))
        .toSorted()
        .map((name) => path.join(directory, name)),
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await removeTestDirectory(directory);
    },
  };
}

/** Batches end at varied positions. */
const SIZES = [1, 2, 5, 3, 8];

async function appendUpTo(database: TestDatabase, upTo: number, sizes: readonly number[]): Promise<void> {
  await using writer = await openWriter(database);
  let head = 0;
  for (let round = 0; head < upTo; round++) {
    head = await writer.append(callsOf(sizes[round % sizes.length] as number, round));
    if (round % 3 !== 0) continue;
    const event = registered();
    head = await writer.control([
      { event, version: 1, claim: `account-name/${event.name}` },
      { event: suspended(event.account), version: 2 },
    ]);
  }
  await retireInstance(writer.client, writer.instance);
}

/** Events with characters that JSON and PostgreSQL escape, and with the largest numbers. */
function callsOf(count: number, round: number): RequestEvent[] {
  const events: RequestEvent[] = [];
  while (events.length < count) {
    const begun = accepted({
      model: `mo"del \\ ${round}, (x)`,
      sse: round % 2 === 0,
      retry_count: round % 3,
    });
    events.push(begun, settled(begun, { cost_nanousd: 2 ** 53 - 1, price_version: round }));
  }
  return events.slice(0, count);
}

async function markProjected(database: TestDatabase): Promise<void> {
  const owner = await connectOwner(database);
  await owner.query('update daybook.projection set position = daybook.head(0::smallint)');
  await owner.end();
}

/** As the archive's callers connect: its statements are those of a batch job. */
const connectOwner = (database: TestDatabase) => connectAs(database, 'owner', ARCHIVE_STATEMENT_TIMEOUT_MS);
