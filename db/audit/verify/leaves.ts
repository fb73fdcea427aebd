import { type EventRow, leafContent } from '#db/audit/source/event-row.ts';
import { type HashText, hashText } from '#db/audit/verify/tree.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/** The leaf hashes of rows. Pure. */

/** A row, or its leaf hash, or null if both are unavailable. */
export type Pending = EventRow | Buffer | null;

/** The concatenated leaf hashes of rows. */
export function leavesOf(rows: readonly Pending[]): {
  bytes: Buffer;
  texts: (HashText | null)[];
  isKnown: boolean;
} {
  const bytes = Buffer.allocUnsafe(rows.length * HASH_BYTES);
  const texts: (HashText | null)[] = [];
  let isKnown = true;
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index] as Pending;
    const leaf = row === null || Buffer.isBuffer(row) ? null : hashText(leafContent(row));
    texts.push(leaf);
    if (leaf !== null) bytes.write(leaf, index * HASH_BYTES, 'latin1');
    else if (Buffer.isBuffer(row)) row.copy(bytes, index * HASH_BYTES);
    else isKnown = false;
  }
  return { bytes, texts, isKnown };
}
