import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { createZstdDecompress } from 'node:zlib';
import { type Header, Header as HeaderShape } from '#db/archive/line.ts';
import {
  ArchiveDamageError,
  type Predecessor,
  logStart,
  continuityDamage,
  type Contents,
  verifyFile,
} from '#db/archive/verify.ts';
import type { Part, Source } from '#db/audit/source/source.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { AT, COLUMN_NAMES, type Row } from '#db/log/columns.ts';
import { placeRows, type Read } from '#db/log/read.ts';

/** A header names a few hundred leaf hashes at most; what is longer is no file of ours. */
const HEADER_BYTES_MAX = 128 * 1024 * 1024;
const LINE_BREAK = 0x0a;

type Headed = { file: string; header: Header };

/**
 * Exported files as a source of events. Each event is proved by its file's own chain before it is
 * given out, and each file has to continue the one before it.
 * @param names in any order.
 * @throws {StoreError} when there are none, one can't be read, or a part of the log is missing between them.
 */
export async function fileSource(names: readonly string[]): Promise<Source & { logId: string }> {
  const headed: Headed[] = [];
  for (const file of names) headed.push({ file, header: await readHeader(file) });
  const files = headed.toSorted((one, other) => one.header.first_position - other.header.first_position);
  const [first, last] = [files[0], files.at(-1)];
  if (first === undefined || last === undefined) throw new StoreError('no files were named');
  for (const [index, { file, header }] of files.entries()) {
    const before = files[index - 1]?.header;
    if (before && before.log_id !== header.log_id)
      throw new StoreError(`${file} is of another log than ${files[index - 1]?.file}`);
    if (before && before.last_position + 1 !== header.first_position) {
      throw new StoreError(
        `${file} begins at position ${header.first_position}, and ${files[index - 1]?.file} ends at ${before.last_position}`,
      );
    }
  }
  return {
    logId: first.header.log_id,
    first: first.header.first_position,
    head: last.header.last_position,
    seek: () => Promise.resolve(null),
    isLive: () => false,
    read: (part) => pagesOf(files, part),
  };
}

async function* pagesOf(files: readonly Headed[], { after, upTo }: Part): AsyncGenerator<Read[]> {
  let before: Predecessor | undefined;
  for (const { file, header } of files) {
    if (header.last_position <= after || header.first_position > upTo) continue;
    if (header.first_position === 1) before = logStart(header.log_id);
    const lines = linesOf(file);
    try {
      for (let step = await lines.next(); ; step = await lines.next()) {
        if (step.done) {
          const damage = before && continuityDamage(before, step.value);
          if (damage) throw new ArchiveDamageError(basename(file), damage);
          before = step.value;
          break;
        }
        const page = eventsOf(step.value).filter(({ position }) => position > after && position <= upTo);
        if (page.length > 0) yield page;
        if (page.at(-1)?.position === upTo) return;
      }
    } finally {
      await lines.return(undefined as never);
    }
  }
}

/** The lines of a file's events, as they are proved. @returns what the file was found to hold. */
async function* linesOf(file: string): AsyncGenerator<string[], Contents> {
  const stop = new AbortController();
  let given = Promise.withResolvers<{ lines: string[] } | { contents: Contents }>();
  let taken = Promise.withResolvers<void>();
  const onEvents = (lines: string[]): Promise<void> => {
    given.resolve({ lines });
    return taken.promise;
  };
  const reading = verifyFile(file, onEvents, stop.signal).then(
    (contents) => given.resolve({ contents }),
    (error: unknown) => given.reject(error),
  );
  try {
    for (;;) {
      const next = await given.promise;
      if ('contents' in next) return next.contents;
      given = Promise.withResolvers();
      yield next.lines;
      const done = taken;
      taken = Promise.withResolvers();
      done.resolve();
    }
  } finally {
    stop.abort();
    given.promise.catch(() => undefined);
    taken.resolve();
    await reading;
  }
}

/** The names of a line's fields in the order of the columns of a row. */
const FIELDS = COLUMN_NAMES.slice(1).map((name) => (name === 'at' ? 'at_us' : name));

/** The events of an archive file's lines. */
export function eventsOf(lines: readonly string[]): Read[] {
  let atUs = -1;
  let at = '';
  const rows = lines.map((line) => {
    const fields = JSON.parse(line) as Record<string, unknown>;
    const row = FIELDS.map((name) => fields[name] ?? null);
    if (fields['at_us'] !== atUs) {
      atUs = fields['at_us'] as number;
      at = new Date(Math.floor(atUs / 1000)).toISOString();
    }
    row[AT.at] = at;
    return row as unknown as Row;
  });
  return placeRows(rows);
}

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
      if (end >= 0) return HeaderShape.parse(JSON.parse(Buffer.concat(parts).toString()));
      if (bytes > HEADER_BYTES_MAX) break;
    }
  } catch (error) {
    throw new StoreError(`${file} is not an exported part of a log, or can't be read`, { cause: error });
  } finally {
    stored.destroy();
  }
  throw new StoreError(`${file} is not an exported part of a log`);
}
