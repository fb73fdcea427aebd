import type { Client } from 'pg';
import { readPart } from '#db/audit/source/pages.ts';
import { GapError } from '#db/log/follow.ts';
import { positionAt } from '#db/log/lookup.ts';
import { firstPosition, PAGE_ROWS, type Read, readHead, readRows } from '#db/log/read.ts';

/** A part of the log: the positions above `after`, up to `upTo`. */
export type Part = { after: number; upTo: number };

/** Where an auditor's events come from: a database, exported files, or files and then a database. */
export type Source = {
  /** The first and the last position that are there, and everything between them. */
  first: number;
  head: number;
  /**
   * The first position whose event is not earlier than a moment, behind the head where there is none; null
   * where only reading would tell.
   */
  seek(moment: Date): Promise<number | null>;
  /** Whether the database itself has all from a position on. */
  isLive(position: number): boolean;
  /**
   * The events of a part, page by page, in order and without a gap.
   * @throws {GapError | ArchiveDamageError} where one is missing.
   */
  read(part: Part): AsyncGenerator<readonly Read[]>;
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

/** Postgres makes the next page while this one is folded. */
async function* pagesOf(client: Client, { after, upTo }: Part): AsyncGenerator<Read[]> {
  const fetch = (above: number): Promise<Read[]> => {
    const page = readWhole(client, above, Math.min(above + PAGE_ROWS, upTo));
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

async function readWhole(client: Client, after: number, upTo: number): Promise<Read[]> {
  const part = await readPart(client, after, upTo);
  if (part !== null) return part;
  // Damaged, or cut, or archived a moment ago: row by row it tells what is wrong.
  const page = await readRows(client, after, 'all', upTo - after);
  requireDense(page, after);
  return page;
}

/** @throws {GapError} naming the first position above `after` that is missing. */
function requireDense(page: readonly Read[], after: number): void {
  const gap = page.findIndex(({ position }, index) => position !== after + 1 + index);
  if (gap >= 0 || page.length === 0)
    throw new GapError(`the log has no event at position ${after + 1 + Math.max(gap, 0)}`);
}
