import { fileOf, type Manifest } from '#db/backup/manifest.ts';
import { TableRows } from '#db/backup/rows.ts';
import { parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseNote } from '#db/tlog/note.ts';

/** A signed tree head; without a root if its note is malformed or of another size. */
export type SignedHead = { size: number; root: Buffer | null };

/** The checkpoints of the newest epoch, in order. Older epochs can have abandoned events. */
export async function readCheckpoints(directory: string, manifest: Manifest): Promise<SignedHead[]> {
  const file = fileOf(manifest, 'daybook.checkpoint');
  if (file === undefined) return [];
  const rows = new TableRows(directory, file);
  const [epoch, size, note] = rows.columnIndexes(['epoch', 'size', 'note']) as [number, number, number];
  const found: (SignedHead & { epoch: number })[] = [];
  for await (const row of rows) {
    const at = Number(row[size]);
    found.push({ epoch: Number(row[epoch]), size: at, root: rootIn(row[note] ?? '', at) });
  }
  const newest = Math.max(0, ...found.map((each) => each.epoch));
  return found
    .filter((each) => each.epoch === newest && each.size > 0)
    .toSorted((one, other) => one.size - other.size);
}

function rootIn(note: string, expected: number): Buffer | null {
  try {
    const { size, root } = parseCheckpoint(parseNote(note).text);
    return size === expected ? root : null;
  } catch {
    return null;
  }
}
