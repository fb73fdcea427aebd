import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { createZstdDecompress } from 'node:zlib';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { Header, otherLineFrom, parseBatchLine } from '#db/archive/line.ts';
import { linesIn } from '#db/archive/lines.ts';
import type { Batch, BatchRow } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { BATCH_CHARACTERS_MAX, READ_BYTES, TEXT_BYTES } from '#db/archive/bounds.ts';

/** Some batches of a file, which are not verified yet. */
export type FilePage = { header: Header; batches: Batch[] };

type ReadOptions = {
  /** Called with the compressed bytes. */
  onBytes?: (bytes: Buffer) => void;
  signal?: AbortSignal | undefined;
};

/**
 * Reads a file page by page. Each page has the header; the first may have no batches.
 * @throws {ArchiveDamageError} at the first line that can't be read, after the batches before it.
 * @throws {StoreError} when the file can't be read.
 */
export async function* readFilePages(
  file: string,
  { onBytes, signal }: ReadOptions = {},
): AsyncGenerator<FilePage> {
  const stored = createReadStream(file, { highWaterMark: READ_BYTES, ...(signal ? { signal } : {}) });
  if (onBytes) stored.on('data', (bytes) => onBytes(bytes as Buffer));
  const text = stored.pipe(createZstdDecompress({ chunkSize: TEXT_BYTES }));
  // Without this an error of the file would leave the decompressor waiting forever.
  stored.on('error', (error) => text.destroy(error));
  const lines = new BatchLines();
  try {
    for await (const each of linesIn(text)) yield* lines.add(each);
    yield* lines.end();
  } catch (error) {
    signal?.throwIfAborted();
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EACCES')
      throw new StoreError(`${file} can't be read`, { cause: error });
    throw new ArchiveDamageError(basename(file), { position: lines.next, problem: 'unreadable' }, error);
  } finally {
    stored.destroy();
  }
}

/** Collects lines into batches: one ends where a line begins that is not an event's. */
class BatchLines {
  #header: Header | null = null;
  #row: BatchRow | null = null;
  #events = '';
  /** The position after the last batch. */
  next = 0;

  /** Adds a text of complete lines. @throws {Error} at a line that can't be read. */
  *add(text: string): Generator<FilePage> {
    const batches: Batch[] = [];
    let from = 0;
    try {
      while (from < text.length) {
        const at = otherLineFrom(text, from);
        const end = at < 0 ? text.length : at;
        if (end > from) this.#addEvents(text.slice(from, end));
        if (at < 0) break;
        from = text.indexOf('\n', at) + 1;
        const line = text.slice(at, from - 1);
        if (this.#header === null) {
          this.#header = Header.parse(JSON.parse(line));
          this.next = this.#header.first_position;
          continue;
        }
        this.#endBatch(batches);
        this.#row = parseBatchLine(line);
      }
    } finally {
      if (this.#header !== null) yield { header: this.#header, batches };
    }
  }

  /** @throws {Error} when the file has no header. */
  *end(): Generator<FilePage> {
    if (this.#header === null) throw new Error('empty');
    const batches: Batch[] = [];
    this.#endBatch(batches);
    yield { header: this.#header, batches };
  }

  #addEvents(lines: string): void {
    if (this.#row === null) throw new Error('an event without a batch');
    this.#events += lines;
    if (this.#events.length > BATCH_CHARACTERS_MAX) throw new Error('a batch is too long');
  }

  #endBatch(batches: Batch[]): void {
    if (this.#row === null) return;
    batches.push({ row: this.#row, events: this.#events.slice(0, -1) });
    this.next = Number(this.#row.lastPosition) + 1;
    this.#row = null;
    this.#events = '';
  }
}
