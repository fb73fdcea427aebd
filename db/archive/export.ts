import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress } from 'node:zlib';
import type { ClientBase } from 'pg';
import { type Header, interleave, parseLine } from '#db/archive/line.ts';
import { nextBatchLine, readBatchLines, readEventLines } from '#db/archive/read-lines.ts';
import { genesis, leafOf } from '#db/log/chain.ts';
import { SHARD } from '#db/log/append.ts';
import { db, onlyRowOf, rowOf } from '#db/schema/query.ts';
import { splitHashes, readLeaves } from '#db/tlog/hashes.ts';
import { PAGE_EVENTS, WAITING_PAGES_MAX } from '#db/archive/bounds.ts';

/** Compression takes half as long as Postgres takes to produce the text, and runs in parallel. */
const LEVEL = 3;

/** A partition of the log, as `daybook.log_partition` has it. */
export type Partition = { number: number; name: string; first_position: number; end_position: number };

/** The range of a file. `leavesBefore` reads the leaf hashes of its first batch that precede it. */
type Range = {
  partition: number | null;
  first: number;
  last: number;
  leavesBefore: (after: number) => Promise<readonly Buffer[]>;
};

/**
 * Writes a partition to a file and flushes it to disk. Verification is done by reading the file back; see
 * `db/archive/verify.ts`.
 */
export async function exportPartition(
  client: ClientBase,
  { number, first_position, end_position }: Partition,
  file: string,
  signal?: AbortSignal,
): Promise<void> {
  const leavesBefore = async (): Promise<Buffer[]> => {
    const before = db
      .selectFrom('daybook.log_partition')
      .select('open_leaves')
      .where('number', '=', number - 1);
    return splitHashes((await rowOf(client, before))?.open_leaves ?? Buffer.alloc(0));
  };
  await writeRange(
    client,
    { partition: number, first: Math.max(1, first_position), last: end_position - 1, leavesBefore },
    file,
    signal,
  );
}

/**
 * Writes the events of any range of positions to a file.
 * @param onEvents called with the number of events of each page.
 */
export async function exportRange(
  client: ClientBase,
  { from, to }: { from: number; to: number },
  file: string,
  onEvents: (count: number) => void,
): Promise<void> {
  await writeRange(
    client,
    { partition: null, first: from, last: to, leavesBefore: (after) => readLeaves(client, after, from - 1) },
    file,
    undefined,
    onEvents,
  );
}

async function writeRange(
  client: ClientBase,
  range: Range,
  file: string,
  signal?: AbortSignal,
  onEvents?: (count: number) => void,
): Promise<void> {
  const pages = Readable.from(pagesOf(client, range, onEvents), { highWaterMark: WAITING_PAGES_MAX });
  const compress = createZstdCompress({
    params: { [constants.ZSTD_c_compressionLevel]: LEVEL, [constants.ZSTD_c_checksumFlag]: 1 },
  });
  await pipeline(
    pages,
    compress,
    createWriteStream(file, { mode: 0o600, flush: true }),
    signal ? { signal } : {},
  );
}

async function* pagesOf(
  client: ClientBase,
  range: Range,
  onEvents: (count: number) => void = () => {},
): AsyncGenerator<string> {
  const header = await readHeaderFacts(client, range);
  yield `${JSON.stringify(header)}\n`;
  const last = header.last_position;
  let after = header.first_position - 1;
  let page = readLines(client, after, Math.min(after + PAGE_EVENTS, last));
  while (after < last) {
    const text = await page;
    onEvents(Math.min(PAGE_EVENTS, last - after));
    after = Math.min(after + PAGE_EVENTS, last);
    // Postgres produces the next page while this one is compressed.
    if (after < last) page = readLines(client, after, Math.min(after + PAGE_EVENTS, last));
    page.catch(() => undefined);
    yield text;
  }
  yield await openBatchLines(client, last);
}

async function readHeaderFacts(
  client: ClientBase,
  { partition, first, last, leavesBefore }: Range,
): Promise<Header> {
  const batch = db
    .selectFrom('daybook.log_batch')
    .select(['last_position', 'chain'])
    .where('shard', '=', SHARD)
    .where('last_position', '<', String(first))
    .orderBy('last_position', 'desc')
    .limit(1);
  const {
    log_id,
    last_position: position,
    chain,
  } = await onlyRowOf(
    client,
    db
      .selectFrom('daybook.install as i')
      .leftJoin(batch.as('b'), (join) => join.onTrue())
      .select(['i.log_id', 'b.last_position', 'b.chain']),
  );
  const leaves = await leavesBefore(Number(position ?? 0));
  return {
    archive: 'daybook log 1',
    log_id,
    shard: SHARD,
    partition,
    first_position: first,
    last_position: last,
    chain_before: { position: Number(position ?? 0), chain: (chain ?? genesis(log_id)).toString('hex') },
    leaves_before: leaves.map((leaf) => leaf.toString('hex')),
  };
}

const readEvents = readEventLines('archive_events');

async function readLines(client: ClientBase, after: number, upTo: number): Promise<string> {
  const range = { after: String(after), upTo: String(upTo) };
  const [events] = await readEvents(client, range);
  return interleave(events?.lines ?? '', await readBatchLines(client, range));
}

/** The line of a batch that continues after the last position, with the leaf hashes of its rows there. */
async function openBatchLines(client: ClientBase, last: number): Promise<string> {
  const ended = db
    .selectFrom('daybook.log_batch')
    .select('last_position')
    .where('shard', '=', SHARD)
    .where('last_position', '=', String(last));
  if ((await rowOf(client, ended)) !== undefined) return '';
  const batch = await rowOf(client, nextBatchLine(last));
  if (batch === undefined) throw new Error(`no batch holds position ${last}`);
  const { line, last_position: end } = batch;
  const [behind] = await readEvents(client, { after: String(last), upTo: end });
  const leaves = (behind?.lines ?? '').split('\n').map((text) => {
    const event = parseLine(text, SHARD);
    return leafOf('event' in event ? event.event : []);
  });
  return `${JSON.stringify({ leaves_after: leaves.map((leaf) => leaf.toString('hex')) })}\n${line}\n`;
}
