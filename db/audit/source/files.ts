import { basename } from 'node:path';
import { type HeadedFile, openConsecutive } from '#db/archive/header.ts';
import {
  ArchiveDamageError,
  type Predecessor,
  logStart,
  continuityDamage,
  type Contents,
  verifyFile,
} from '#db/archive/verify.ts';
import type { LogRange, Source } from '#db/audit/source/source.ts';
import { AT, COLUMN_NAMES, type Row } from '#db/log/columns.ts';
import { placeRows, type Read } from '#db/log/read.ts';

/**
 * Exported files as a source of events. Each event is verified by its file's chain before it is passed on,
 * and each file must continue the one before it.
 * @param names in any order.
 * @throws {StoreError} when none are named, one can't be read, or they are not consecutive files of one log.
 */
export async function fileSource(names: readonly string[]): Promise<Source & { logId: string }> {
  const files = await openConsecutive(names);
  const [first, last] = [files[0] as HeadedFile, files.at(-1) as HeadedFile];
  return {
    logId: first.header.log_id,
    first: first.header.first_position,
    head: last.header.last_position,
    seek: () => Promise.resolve(null),
    isLive: () => false,
    read: (part) => pagesOf(files, part),
  };
}

async function* pagesOf(files: readonly HeadedFile[], { after, upTo }: LogRange): AsyncGenerator<Read[]> {
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

/** The verified lines of a file's events. @returns the content of the file. */
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

/** The fields of a line, in the order of the columns of a row. */
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
