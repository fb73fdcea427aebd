import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress } from 'node:zlib';
import type { ClientBase } from 'pg';
import type { Header } from '#db/archive/line.ts';
import { readBatchText } from '#db/archive/read-batches.ts';
import { genesis } from '#db/log/chain.ts';
import { SHARD } from '#db/log/append.ts';
import { batchOf } from '#db/log/lookup.ts';
import { db, onlyRowOf, rowOf } from '#db/schema/query.ts';
import { PAGE_EVENTS, WAITING_PAGES_MAX } from '#db/archive/bounds.ts';

/** Compression takes half as long as Postgres takes to produce the text, and runs in parallel. */
const LEVEL = 3;

/** A partition of the log, as `daybook.log_partition` has it. */
export type Partition = { number: number; name: string; first_position: number; end_position: number };

/** The range of a file, in whole batches. */
type Range = { partition: number | null; first: number; last: number };

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
  const range = { partition: number, first: Math.max(1, first_position), last: end_position - 1 };
  await writeRange(client, range, file, signal);
}

/**
 * Writes the events of a range of positions to a file.
 * @param range of whole batches, see {@link wholeBatches}.
 * @param onEvents called with the number of events of each page.
 */
export async function exportRange(
  client: ClientBase,
  { from, to }: { from: number; to: number },
  file: string,
  onEvents: (count: number) => void,
): Promise<void> {
  await writeRange(client, { partition: null, first: from, last: to }, file, undefined, onEvents);
}

/**
 * Extends a range to the beginning of its first batch and the end of its last one: what the chain covers is
 * whole batches.
 */
export async function wholeBatches(
  client: ClientBase,
  { from, to }: { from: number; to: number },
): Promise<{ from: number; to: number }> {
  const first = await rowOf(client, batchOf(from).select(['last_position', 'event_count']));
  const last = await rowOf(client, batchOf(to).select('last_position'));
  if (first === undefined || last === undefined) throw new Error(`the log ends before position ${to}`);
  return { from: Number(first.last_position) - first.event_count + 1, to: Number(last.last_position) };
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
  { partition, first, last }: Range,
  onEvents: (count: number) => void = () => {},
): AsyncGenerator<string> {
  const header: Header = {
    archive: 'daybook log 1',
    shard: SHARD,
    partition,
    first_position: first,
    last_position: last,
    ...(await readStart(client, first)),
  };
  yield `${JSON.stringify(header)}\n`;
  const readPage = async (after: number) => {
    const upTo = Math.min(after + PAGE_EVENTS, last);
    const [page] = await readText(client, { after: String(after), upTo: String(upTo) });
    return { text: page?.text ?? '', count: page?.count ?? 0 };
  };
  let page = readPage(first - 1);
  for (let after = first - 1; after < last; after += PAGE_EVENTS) {
    const { text, count } = await page;
    // Postgres produces the next page while this one is compressed.
    if (after + PAGE_EVENTS < last) page = readPage(after + PAGE_EVENTS);
    page.catch(() => undefined);
    onEvents(count);
    yield text;
  }
}

const readText = readBatchText('archive_batches');

/** The log, and the chain value of the batch before a position. */
async function readStart(
  client: ClientBase,
  first: number,
): Promise<Pick<Header, 'log_id' | 'chain_before'>> {
  const before = db
    .selectFrom('daybook.log_batch')
    .select('chain')
    .where('shard', '=', SHARD)
    .where('last_position', '=', String(first - 1));
  const { log_id, chain } = await onlyRowOf(
    client,
    db.selectFrom('daybook.install').select(['log_id', before.as('chain')]),
  );
  return { log_id, chain_before: (chain ?? genesis(log_id)).toString('hex') };
}
