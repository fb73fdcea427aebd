import type { Client } from 'pg';
import { fileSource } from '#db/audit/files.ts';
import { StoreError } from '#db/connect.ts';
import { GapError } from '#db/log/follow.ts';
import { positionAt } from '#db/log/look.ts';
import { ArchivedError, firstPosition, PAGE_ROWS, type Read, readHead, readRows } from '#db/log/read.ts';
import path from 'node:path';

/** A part of the log: the positions above `after`, up to `upTo`. */
export type Part = { after: number; upTo: number };

/** Where an auditor's events come from: a database, exported files, or files and then a database. */
export type Source = {
  /** The first and the last position that are there, and everything between them. */
  first: number;
  head: number;
  /** The last position whose event is not later than a moment, as far as the moment's millisecond; `first - 1` where all are later. */
  lastAt(moment: Date): Promise<number>;
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
    lastAt: async (moment) => (await positionAt(client, new Date(moment.getTime() + 1), head)) - 1,
    read: (part) => pagesOf(client, part),
  };
}

/** Where to read: exported files alone; or a database, with the directory of what is archived of it. */
export type Places = { files?: readonly string[] | undefined; archiveDir?: string | undefined };

/**
 * The log from its beginning: the part that left the database from the files of its archive, where
 * there is such a part, and the rest from the database.
 * @throws {StoreError} when a part is archived and the files are not there. {ArchivedError} when nobody said where they are.
 */
export async function wholeSource(client: Client, archiveDir: string | undefined): Promise<Source> {
  const live = await databaseSource(client);
  if (live.first === 1) return live;
  const archived = await archivedFiles(client);
  if (archiveDir === undefined) throw new ArchivedError(live.first, archived);
  const files = await fileSource(archived.map((file) => path.join(archiveDir, file)));
  const { rows } = await client.query<{ log_id: string }>('select log_id from daybook.install');
  if (files.logId !== rows[0]?.log_id) throw new StoreError(`the files in ${archiveDir} are of another log than the database's`);
  if (files.head + 1 !== live.first) throw new StoreError(`the files in ${archiveDir} end at position ${files.head}, and the log begins at ${live.first}`);
  return {
    first: files.first,
    head: live.head,
    lastAt: async (moment) => {
      const last = await live.lastAt(moment);
      return last < live.first ? files.lastAt(moment) : last;
    },
    async *read({ after, upTo }) {
      if (after < files.head) yield* files.read({ after, upTo: Math.min(upTo, files.head) });
      if (upTo > files.head) yield* live.read({ after: Math.max(after, files.head), upTo });
    },
  };
}

async function archivedFiles(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ file: string }>(
    `select manifest->>'file' as file from daybook.log_partition
      where archived_at is not null and not daybook.is_attached(name) order by number`,
  );
  return rows.map(({ file }) => file);
}

/** Postgres makes the next page while this one is folded. */
async function* pagesOf(client: Client, { after, upTo }: Part): AsyncGenerator<Read[]> {
  const fetch = (above: number): Promise<Read[]> => {
    const page = readRows(client, above, 'all', Math.min(PAGE_ROWS, upTo - above));
    page.catch(() => undefined);
    return page;
  };
  let next = after < upTo ? fetch(after) : null;
  for (let at = after; next !== null; ) {
    const page = await next;
    requireDense(page, at);
    at = (page.at(-1) as Read).position;
    next = at < upTo ? fetch(at) : null;
    yield page;
  }
}

/** @throws {GapError} naming the first position above `after` that is missing. */
export function requireDense(page: readonly Read[], after: number): void {
  const gap = page.findIndex(({ position }, index) => position !== after + 1 + index);
  if (gap >= 0 || page.length === 0) throw new GapError(`the log has no event at position ${after + 1 + Math.max(gap, 0)}`);
}
