import type { ClientBase } from 'pg';
import { sql } from 'kysely';
import { StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { ENTRY_BYTES_MAX } from '#db/log/bounds.ts';
import { LEAF_COLUMNS } from '#db/log/chain.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';

/**
 * Entry bundles (c2sp.org/tlog-tiles): the entries of a leaf tile, each with its length before it. An entry
 * is the text of an event's row, so SHA-256 of a zero byte and the entry is its leaf hash.
 */

const LENGTH_BYTES = 2;

/** An event is larger than an entry bundle can hold: it was appended by hand, or before there was a bound. */
export class EntryTooLargeError extends StoreError {
  override name = 'EntryTooLargeError';
}

/**
 * Serializes consecutive entries.
 * @param position that of the first entry, for the error.
 * @throws {EntryTooLargeError}
 */
export function encodeBundle(entries: readonly Uint8Array[], position: number): Buffer {
  const parts: Uint8Array[] = [];
  for (const [index, entry] of entries.entries()) {
    if (entry.length > ENTRY_BYTES_MAX)
      throw new EntryTooLargeError(
        `the event at position ${position + index} has ${entry.length} bytes, and entry bundles hold ` +
          `${ENTRY_BYTES_MAX} at most: read it with "audit export"`,
      );
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt16BE(entry.length);
    parts.push(length, entry);
  }
  return Buffer.concat(parts);
}

/**
 * Reads the entries of the events above one position up to another, which is at most the head.
 * @throws {MissingHashesError} when the log does not have all of them.
 */
export async function readEntries(client: ClientBase, after: number, upTo: number): Promise<Buffer[]> {
  const query = db
    .selectFrom('daybook.log')
    .select(sql<Buffer>`convert_to(row(${sql.raw(LEAF_COLUMNS)})::text, 'UTF8')`.as('entry'))
    .where('shard', '=', SHARD)
    .where('position', '>', String(after))
    .where('position', '<=', String(upTo))
    .orderBy('position');
  const rows = await rowsOf(client, query);
  if (rows.length !== upTo - after)
    throw new MissingHashesError(
      `the events above position ${after} up to ${upTo} are not all in the database: archived events are ` +
        'in the files of the archive',
    );
  return rows.map(({ entry }) => entry);
}
