import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import path from 'node:path';
import { pipeline as pipe, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import type { TableFile } from '#db/backup/manifest.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** The same as the archive's: compression takes half as long as Postgres takes to produce the text. */
const LEVEL = 3;
/**
 * The pieces in which files are read and decompressed: with Node's 16 KB, passing them on costs a quarter of
 * a verification.
 */
const PIECE_BYTES = 256 * 1024;
/** The longest rows are events with long lists of names, of a few hundred kilobytes. */
const LINE_CHARACTERS_MAX = 64 * 1024 * 1024;

/** A file of a backup is missing or was modified. */
export class BackupDamageError extends StoreError {
  override name = 'BackupDamageError';
}

/** Writes text to a file, compressed, and flushes it to disk. */
export async function writeFile(
  text: Readable,
  file: string,
  signal?: AbortSignal,
): Promise<Pick<TableFile, 'bytes' | 'sha256'>> {
  const digest = createHash('sha256');
  let bytes = 0;
  async function* counted(compressed: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of compressed) {
      digest.update(chunk);
      bytes += chunk.length;
      yield chunk;
    }
  }
  const compress = createZstdCompress({
    chunkSize: PIECE_BYTES,
    params: { [constants.ZSTD_c_compressionLevel]: LEVEL, [constants.ZSTD_c_checksumFlag]: 1 },
  });
  await pipeline(
    text,
    compress,
    counted,
    createWriteStream(file, { mode: 0o600, flush: true }),
    signal ? { signal } : {},
  );
  return { bytes, sha256: digest.digest('hex') };
}

/**
 * Streams the text of a table's file.
 * @param onEnd called with the digest of the text once the file was read and matched its manifest.
 * @throws {BackupDamageError} when the file is missing, unreadable, or does not match its manifest.
 */
export async function* readFile(
  directory: string,
  { file, sha256 }: TableFile,
  onEnd: (textSha256: string) => void = () => {},
): AsyncGenerator<Buffer> {
  const stored = createHash('sha256');
  const text = createHash('sha256');
  async function* digested(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      stored.update(chunk);
      yield chunk;
    }
  }
  // An error in one stage ends the pipeline, and is thrown where the text is read.
  const source = pipe(
    createReadStream(path.join(directory, file), { highWaterMark: PIECE_BYTES }),
    digested,
    createZstdDecompress({ chunkSize: PIECE_BYTES }),
    () => undefined,
  );
  try {
    for await (const chunk of source) {
      text.update(chunk as Buffer);
      yield chunk as Buffer;
    }
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new BackupDamageError(
      isMissing ? `${file} of the backup is missing` : `${file} of the backup is damaged: it can't be read`,
      { cause: error },
    );
  }
  if (stored.digest('hex') !== sha256)
    throw new BackupDamageError(
      `${file} of the backup is damaged: its SHA-256 is not the one in the manifest`,
    );
  onEnd(text.digest('hex'));
}

/** A row: each column in PostgreSQL's text format, or null. */
export type Row = (string | null)[];

const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };
const unescapeEach = (field: string): string =>
  field.replace(/\\(.)/g, (_, letter: string) => ESCAPED[letter] ?? letter);

/** The events of a batch are the longest fields, and nearly all escapes in them are line breaks. */
function unescaped(field: string): string {
  if (!field.includes('\\')) return field;
  if (field.includes('\\\\')) return unescapeEach(field);
  const text = field.replaceAll('\\n', '\n');
  return text.includes('\\') ? unescapeEach(field) : text;
}

/** Parses a line. */
function rowOf(line: string): Row {
  const row: Row = line.split('\t');
  for (let at = 0; at < row.length; at++) {
    const field = row[at] as string;
    row[at] = field === '\\N' ? null : unescaped(field);
  }
  return row;
}

/**
 * Parses the text of a COPY into rows, one page per chunk.
 * @throws {BackupDamageError} when a row has the wrong number of columns.
 */
export async function* rowsIn(
  text: AsyncIterable<Buffer>,
  { file, columns }: Pick<TableFile, 'file' | 'columns'>,
): AsyncGenerator<Row[]> {
  const decoder = new StringDecoder('utf8');
  const damaged = (): BackupDamageError =>
    new BackupDamageError(`${file} of the backup is damaged: a row is malformed`);
  let rest = '';
  for await (const chunk of text) {
    const lines = (rest + decoder.write(chunk)).split('\n');
    rest = lines.pop() as string;
    if (rest.length > LINE_CHARACTERS_MAX) throw damaged();
    const rows = lines.map(rowOf);
    if (rows.some((row) => row.length !== columns.length)) throw damaged();
    yield rows;
  }
  if (rest !== '' || decoder.end() !== '') throw damaged();
}
