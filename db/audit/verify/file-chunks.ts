import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import type { TransformOptions } from 'node:stream';
import { createZstdDecompress, type ZstdOptions } from 'node:zlib';
import { lineSpans, lineChunksOf } from '#db/archive/lines.ts';
import { Header, parseLine } from '#db/archive/line.ts';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { JsonRows } from '#db/audit/source/json-rows.ts';
import { type EventRow, rowOfFields } from '#db/audit/source/event-row.ts';
import type { BatchRow } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { FILE_BUFFERED_BYTES_MAX, FILE_READ_BYTES, FILE_TEXT_BYTES } from '#db/audit/bounds.ts';

/** A chunk of lines of a file, parsed but not verified: batches follow their last events. */
export type FileChunk = { header: Header; rows: EventRow[]; batches: BatchRow[]; leavesAfter: Buffer[] };

/**
 * Reads an exported file in chunks, each with the header.
 * @throws {ArchiveDamageError} at the first unreadable line, after the lines before it.
 * @throws {StoreError} when the file can't be read.
 */
export async function* readFileChunks(
  file: string,
  onBytes?: (bytes: Buffer) => void,
): AsyncGenerator<FileChunk> {
  const stored = createReadStream(file, { highWaterMark: FILE_READ_BYTES });
  if (onBytes) stored.on('data', (chunk) => onBytes(chunk as Buffer));
  const text = stored.pipe(
    createZstdDecompress({
      chunkSize: FILE_TEXT_BYTES,
      readableHighWaterMark: FILE_BUFFERED_BYTES_MAX,
    } as ZstdOptions & TransformOptions),
  );
  stored.on('error', (error) => text.destroy(error));
  let header: Header | undefined;
  let next = 0;
  const plainRows = new JsonRows();
  try {
    for await (const lines of lineChunksOf(text)) {
      const chunk: Omit<FileChunk, 'header'> = { rows: [], batches: [], leavesAfter: [] };
      let failure: unknown = null;
      try {
        for (const [start, end] of lineSpans(lines)) {
          const plain = header?.shard === 0 ? plainRows.parseRow(lines, start, end) : null;
          if (plain !== null) next += chunk.rows.push(plain) && 1;
          else if (header !== undefined)
            next += addLine(chunk, lines.toString('utf8', start, end), header.shard);
          else {
            header = Header.parse(JSON.parse(lines.toString('utf8', start, end)));
            next = header.first_position;
          }
        }
      } catch (error) {
        failure = error ?? new Error('unreadable');
      }
      // The lines before the unreadable one are passed on.
      if (header !== undefined) yield { header, ...chunk };
      if (failure !== null) throw failure as Error;
    }
    if (header === undefined) throw new Error('empty');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EACCES')
      throw new StoreError(`${file} can't be read`, { cause: error });
    throw new ArchiveDamageError(basename(file), { position: next, problem: 'unreadable' }, error);
  } finally {
    stored.destroy();
  }
}

/** @returns the number of events added. */
function addLine(chunk: Omit<FileChunk, 'header'>, line: string, shard: number): number {
  const parsed = parseLine(line, shard);
  if ('event' in parsed) return chunk.rows.push(rowOfFields(parsed.event)) && 1;
  if ('batch' in parsed) chunk.batches.push(parsed.batch);
  else chunk.leavesAfter.push(...parsed.leavesAfter);
  return 0;
}
