import { ENTRY_BYTES_MAX } from '#db/log/bounds.ts';
import { StoreError } from '#db/postgres/connect.ts';

/**
 * Entry bundles (c2sp.org/tlog-tiles): the entries of a leaf tile, each with its length before it. An entry
 * is the text of an event and its place in the log: SHA-256 of a zero byte and the entry is its leaf hash.
 * Pure.
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
export function encodeBundle(entries: readonly string[], position: number): Buffer {
  const parts: Uint8Array[] = [];
  for (const [index, text] of entries.entries()) {
    const entry = Buffer.from(text);
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
