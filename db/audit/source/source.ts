import type { Client } from 'pg';
import { readPart } from '#db/audit/source/pages.ts';
import { GapError } from '#db/log/follow.ts';
import { positionAt } from '#db/log/lookup.ts';
import { firstPosition, PAGE_ROWS, type Read, readHead, readRows } from '#db/log/read.ts';

/** A range of the log: the positions above `after`, up to `upTo`. */
export type LogRange = { after: number; upTo: number };

/** A source of events: a database, exported files, or files followed by a database. */
export type Source = {
  /** The first and the last position. Every position in between is available. */
  first: number;
  head: number;
  /**
   * The first position whose event is not earlier than a point in time, head + 1 if every event is earlier;
   * null if the source has no index on time.
   */
  seek(moment: Date): Promise<number | null>;
  /** Whether the database has all events from a position on. */
  isLive(position: number): boolean;
  /**
   * The events of a range, page by page, in order and without a gap.
   * @throws {GapError | ArchiveDamageError} when one is missing.
   */
  read(part: LogRange): AsyncGenerator<readonly Read[]>;
};

/** The log of a database, from the first position that is not archived. */
export async function databaseSource(client: Client): Promise<Source> {
  const first = await firstPosition(client);
  const head = await readHead(client);
  return {
    first,
    head,
    seek: (moment) => positionAt(client, moment, head),
    isLive: (position) => position >= first,
    read: (part) => pagesOf(client, part),
  };
}

/** Postgres reads the next page while this one is folded. */
async function* pagesOf(client: Client, { after, upTo }: LogRange): AsyncGenerator<Read[]> {
  const fetch = (above: number): Promise<Read[]> => {
    const page = readComplete(client, above, Math.min(above + PAGE_ROWS, upTo));
    page.catch(() => undefined);
    return page;
  };
  let next = after < upTo ? fetch(after) : null;
  for (let at = after; next !== null;) {
    const page = await next;
    at = (page.at(-1) as Read).position;
    next = at < upTo ? fetch(at) : null;
    yield page;
  }
}

async function readComplete(client: Client, after: number, upTo: number): Promise<Read[]> {
  const part = await readPart(client, after, upTo);
  if (part !== null) return part;
  // Damaged, truncated or archived in the meantime: reading row by row gives a specific error.
  const page = await readRows(client, after, 'all', upTo - after);
  requireNoGap(page, after);
  return page;
}

/** @throws {GapError} naming the first position above `after` that is missing. */
function requireNoGap(page: readonly Read[], after: number): void {
  const gap = page.findIndex(({ position }, index) => position !== after + 1 + index);
  if (gap >= 0 || page.length === 0)
    throw new GapError(`the log has no event at position ${after + 1 + Math.max(gap, 0)}`);
}
