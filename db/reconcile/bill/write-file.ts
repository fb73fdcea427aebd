import { open, rename, rm } from 'node:fs/promises';
import { BillFormatError } from '#db/reconcile/bill/format-error.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { writeBill } from '#db/reconcile/bill/ndjson.ts';

const CHUNK_CHARACTERS = 64 * 1024;

/**
 * Writes a bill to a file that its owner alone can read: complete, or not at all.
 * @throws {BillFormatError} with the name of the file that can't be written.
 */
export async function writeBillFile(file: string, bill: Bill): Promise<void> {
  const partial = `${file}.partial`;
  try {
    const handle = await open(partial, 'w', 0o600);
    try {
      await handle.writeFile(chunksOf(writeBill(bill)));
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, file);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    throw new BillFormatError(file, `It can't be written (${(error as NodeJS.ErrnoException).code}).`);
  }
}

/** Lines in pieces that are each worth a system call. */
function* chunksOf(lines: Iterable<string>): Iterable<string> {
  let chunk = '';
  for (const line of lines) {
    chunk += line;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    yield chunk;
    chunk = '';
  }
  if (chunk !== '') yield chunk;
}
