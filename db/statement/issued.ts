import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { type BilledDocument, documentTitle, INVOICE_GROUPS } from '#db/statement/invoices.ts';
import { readInvoices, type ReadStatement, readStatement, type StatementBounds } from '#db/statement/read.ts';
import { readNote } from '#db/statement/read-corrections.ts';

/** Issued documents, and the statements that they bill. */

/** An invoice or a credit note over corrections, with the time at which it was issued. */
export type IssuedDocument = { document: BilledDocument; at: Date; entry: string };

/** The log doesn't add up to a document that it has. */
export class UnbalancedDocumentError extends StoreError {
  override name = 'UnbalancedDocumentError';
}

/** The document with a number; null: it does not exist, or takes a whole invoice back. */
export async function findIssued(client: ClientBase, number: number): Promise<IssuedDocument | null> {
  // Numbers are the versions of the stream, from 1 on.
  const found = (await readInvoices(client))[number - 1];
  if (found === undefined) return null;
  const { entry, placed } = found;
  return placed.event.type === 'invoice.issued' || placed.event.type === 'invoice.corrected'
    ? { document: placed.event, at: placed.at, entry }
    : null;
}

/**
 * The statement that a document bills.
 * @throws {UnbalancedDocumentError} when the log does not add up to it any more.
 */
export async function readBilled(
  client: ClientBase,
  document: BilledDocument,
  bounds: StatementBounds = {},
): Promise<ReadStatement> {
  const { account, end_user: endUser = null, as_of: asOf } = document;
  const request = {
    account,
    end_user: endUser,
    from: new Date(document.from),
    to: new Date(document.to),
    asOf,
  };
  const isBilled = ({ statement }: ReadStatement): boolean => digestOf(statement) === document.digest;
  if (document.type === 'invoice.issued') {
    // The digest says whether these sums are those of the log.
    const summed = await readStatement(client, { ...request, group_by: INVOICE_GROUPS }, bounds);
    if (isBilled(summed)) return summed;
  }
  const read =
    document.type === 'invoice.issued'
      ? await readStatement(client, { ...request, group_by: INVOICE_GROUPS, fromLog: true }, bounds)
      : await readNote(client, { ...request, corrections: document.corrections });
  if (!isBilled(read))
    throw new UnbalancedDocumentError(
      `the log does not add up to ${documentTitle(document)}: run "audit verify"`,
    );
  return read;
}
