import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import path from 'node:path';
import { pipeline as pipe, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import type { TableFile } from '#db/backup/manifest.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** As for the archive: compressing takes half as long as Postgres takes to make the text. */
const LEVEL = 3;
/** A row holds one event; the longest are terms with long lists of names, of some hundred kilobytes. */
const LINE_CHARACTERS_MAX = 64 * 1024 * 1024;

/** A file of a backup is not what was written. */
export class BackupDamageError extends StoreError {
  override name = 'BackupDamageError';
}

/** Writes a text to a file, compressed, and has it reach the disk. */
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
 * The text of a table's file, piece by piece.
 * @param onEnd is given the digest of the text when all of it was read and found to be what was written.
 * @throws {BackupDamageError} when the file is missing, unreadable or another than the manifest tells of.
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
  // What breaks one of them ends all, and comes out where the text is read.
  const source = pipe(
    createReadStream(path.join(directory, file)),
    digested,
    createZstdDecompress(),
    () => undefined,
  );
  try {
    for await (const piece of source) {
      text.update(piece as Buffer);
      yield piece as Buffer;
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
      `${file} of the backup is damaged: it is not the file that its manifest tells of`,
    );
  onEnd(text.digest('hex'));
}

/** A row: each column as Postgres spells it, null for null. */
export type Row = (string | null)[];

const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };
const unescaped = (field: string): string =>
  field.replace(/\\(.)/g, (_, letter: string) => ESCAPED[letter] ?? letter);

/**
 * The columns of a line. Hardly any has something that COPY escapes, and that is seen at once for all of
 * them.
 */
function rowOf(line: string): Row {
  const isPlain = !/\\[^N]/.test(line);
  const row: Row = line.split('\t');
  for (let at = 0; at < row.length; at++) {
    const field = row[at] as string;
    if (field === '\\N') row[at] = null;
    else if (!isPlain) row[at] = unescaped(field);
  }
  return row;
}

/**
 * The rows in the text of a COPY, some at a time.
 * @throws {BackupDamageError} where a row has not as many columns as the table.
 */
export async function* rowsIn(
  text: AsyncIterable<Buffer>,
  { file, columns }: Pick<TableFile, 'file' | 'columns'>,
): AsyncGenerator<Row[]> {
  const decoder = new StringDecoder('utf8');
  const damaged = (): BackupDamageError =>
    new BackupDamageError(`${file} of the backup is damaged: not all of it are rows`);
  let rest = '';
  for await (const piece of text) {
    const lines = (rest + decoder.write(piece)).split('\n');
    rest = lines.pop() as string;
    if (rest.length > LINE_CHARACTERS_MAX) throw damaged();
    const rows = lines.map(rowOf);
    if (rows.some((row) => row.length !== columns.length)) throw damaged();
    yield rows;
  }
  if (rest !== '' || decoder.end() !== '') throw damaged();
}
