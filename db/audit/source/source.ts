import type { Client } from 'pg';
import { SOURCE_PAGE_POSITIONS } from '#db/audit/bounds.ts';
import type { BatchEvents } from '#db/log/chain.ts';
import { positionAt } from '#db/log/lookup.ts';
import { GapError, firstPosition, type LogRange, readBatches, readHead } from '#db/log/read.ts';

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
   * The batches with the events of a range, page by page, in order and without a gap. The first and the last
   * batch can have events outside the range, too.
   * @throws {GapError | ArchiveDamageError} when an event is missing.
   */
  read(range: LogRange): AsyncGenerator<readonly BatchEvents[]>;
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
    read: (range) => pagesOf(client, range),
  };
}

/** Postgres reads the next page while this one is processed. */
async function* pagesOf(client: Client, { after, upTo }: LogRange): AsyncGenerator<BatchEvents[]> {
  const fetch = (above: number): Promise<BatchEvents[]> => {
    const page = readBatches(client, { after: above, upTo: Math.min(above + SOURCE_PAGE_POSITIONS, upTo) });
    page.catch(() => undefined);
    return page;
  };
  let next = after < upTo ? fetch(after) : null;
  for (let at = after; next !== null;) {
    const page: BatchEvents[] = await next;
    const last = page.at(-1);
    if (last === undefined) throw new GapError(at + 1);
    at = Number(last.row.lastPosition);
    next = at < upTo ? fetch(at) : null;
    yield page;
  }
}
