import { readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { BILL_FILE_BYTES_MAX } from '#db/reconcile/bill/bounds.ts';
import { BillFormatError } from '#db/reconcile/bill/format-error.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { type BillFormat, type BillTerms, parseBill } from '#db/reconcile/bill/read-bill.ts';

/**
 * Reads a bill from a file.
 * @throws {BillFormatError} with the name of the file and the place in it that can't be read.
 */
export async function readBillFile(file: string, format: BillFormat, terms: BillTerms = {}): Promise<Bill> {
  const name = basename(file);
  const text = await readText(file, name);
  try {
    return parseBill(text, format, terms);
  } catch (error) {
    if (!(error instanceof BillFormatError)) throw error;
    throw new BillFormatError(name, error.message);
  }
}

async function readText(file: string, name: string): Promise<string> {
  let bytes: Buffer;
  try {
    const { size } = await stat(file);
    if (size > BILL_FILE_BYTES_MAX)
      throw new BillFormatError(name, `It is larger than ${BILL_FILE_BYTES_MAX} bytes. Split it by time.`);
    bytes = await readFile(file);
  } catch (error) {
    if (error instanceof BillFormatError) throw error;
    throw new BillFormatError(name, `It can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new BillFormatError(name, 'It is not UTF-8.');
  }
}
