import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import type { TransformOptions } from 'node:stream';
import { createZstdDecompress, type ZstdOptions } from 'node:zlib';
import { lineSpans, lineChunksOf } from '#db/archive/lines.ts';
import { Header, parseLine } from '#db/archive/line.ts';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { JsonRows } from '#db/audit/source/json-rows.ts';
import { type EventRow, rowOfFields } from '#db/audit/source/lines.ts';
import type { BatchRow } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** Compressed bytes that are read at once. */
const READ_BYTES = 64 * 1024;
/**
 * Text that is made of them at once, and how much of it waits: the next is made on another core while one is
 * looked at.
 */
const TEXT_BYTES = 64 * 1024;
const WAITING_BYTES_MAX = 4 * TEXT_BYTES;

/**
 * What some lines of a file say, in order: batches stand behind their last events. Nothing of it is checked.
 */
export type Piece = { header: Header; rows: EventRow[]; batches: BatchRow[]; leavesAfter: Buffer[] };

/**
 * Reads an exported file piece by piece; a header comes with each.
 * @throws {ArchiveDamageError} at what can't be read, behind which nothing is.
 * @throws {StoreError} when there is no such file.
 */
export async function* piecesOf(file: string, onBytes?: (bytes: Buffer) => void): AsyncGenerator<Piece> {
  const stored = createReadStream(file, { highWaterMark: READ_BYTES });
  if (onBytes) stored.on('data', (chunk) => onBytes(chunk as Buffer));
  const text = stored.pipe(
    createZstdDecompress({ chunkSize: TEXT_BYTES, readableHighWaterMark: WAITING_BYTES_MAX } as ZstdOptions &
      TransformOptions),
  );
  stored.on('error', (error) => text.destroy(error));
  let header: Header | undefined;
  let next = 0;
  const plainRows = new JsonRows();
  try {
    for await (const lines of lineChunksOf(text)) {
      const piece: Omit<Piece, 'header'> = { rows: [], batches: [], leavesAfter: [] };
      let failure: unknown = null;
      try {
        for (const [start, end] of lineSpans(lines)) {
          const plain = header?.shard === 0 ? plainRows.take(lines, start, end) : null;
          if (plain !== null) next += piece.rows.push(plain) && 1;
          else if (header !== undefined)
            next += takeLine(piece, lines.toString('utf8', start, end), header.shard);
          else {
            header = Header.parse(JSON.parse(lines.toString('utf8', start, end)));
            next = header.first_position;
          }
        }
      } catch (error) {
        failure = error ?? new Error('unreadable');
      }
      // What was good before it is given out all the same.
      if (header !== undefined) yield { header, ...piece };
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

/** @returns how many events it was. */
function takeLine(piece: Omit<Piece, 'header'>, line: string, shard: number): number {
  const parsed = parseLine(line, shard);
  if ('event' in parsed) return piece.rows.push(rowOfFields(parsed.event)) && 1;
  if ('batch' in parsed) piece.batches.push(parsed.batch);
  else piece.leavesAfter.push(...parsed.leavesAfter);
  return 0;
}
