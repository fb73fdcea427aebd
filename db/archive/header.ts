import { createReadStream } from 'node:fs';
import { createZstdDecompress } from 'node:zlib';
import { Header } from '#db/archive/line.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { LINE_BYTES_MAX } from '#db/archive/bounds.ts';

const LINE_BREAK = 0x0a;

/** A file with its header, which is not verified yet. */
export type HeadedFile = { file: string; header: Header };

/**
 * Reads the headers of exported files, and checks that they are consecutive files of one log.
 * @param names in any order.
 * @returns the files in the order of the log, at least one.
 * @throws {StoreError} when none are named, one can't be read, or they are not consecutive.
 */
export async function openConsecutive(names: readonly string[]): Promise<HeadedFile[]> {
  const files: HeadedFile[] = [];
  for (const file of names) files.push({ file, header: await readHeader(file) });
  if (files.length === 0) throw new StoreError('no files: name exported files, or a directory of them');
  files.sort((one, other) => one.header.first_position - other.header.first_position);
  for (const [index, { file, header }] of files.entries()) {
    const before = files[index - 1];
    if (before === undefined) continue;
    if (before.header.log_id !== header.log_id)
      throw new StoreError(`${file} is of another log than ${before.file}`);
    if (before.header.last_position + 1 !== header.first_position)
      throw new StoreError(
        `${file} begins at position ${header.first_position}, and ${before.file} ends at ` +
          `position ${before.header.last_position}`,
      );
  }
  return files;
}

/** Reads the header of an exported file. @throws {StoreError} when the file has no header. */
async function readHeader(file: string): Promise<Header> {
  const stored = createReadStream(file);
  const text = stored.pipe(createZstdDecompress());
  stored.on('error', (error) => text.destroy(error));
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of text as AsyncIterable<Buffer>) {
      const end = part.indexOf(LINE_BREAK);
      parts.push(end < 0 ? part : part.subarray(0, end));
      bytes += part.length;
      if (end >= 0) return Header.parse(JSON.parse(Buffer.concat(parts).toString()));
      if (bytes > LINE_BYTES_MAX) break;
    }
  } catch (error) {
    throw new StoreError(
      `${file} is not an exported range of a log, is damaged at its beginning, or can't be read`,
      { cause: error },
    );
  } finally {
    stored.destroy();
  }
  throw new StoreError(`${file} is not an exported range of a log`);
}
