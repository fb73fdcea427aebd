import path from 'node:path';
import { canonicalJson, firstDifference } from '#db/statement/canonical.ts';
import { statementCsv } from '#db/statement/csv.ts';
import { StatementFileError, type VerifiedStatement } from '#db/statement/file.ts';
import { documentOf } from '#db/statement/invoices.ts';
import { renderPdf } from '#db/statement/pdf/render.ts';

/**
 * Compares a document as JSON, CSV or PDF with the proven statement. CSV and PDF are made again and compared
 * byte by byte, so that a PDF is verified by the release that made it.
 */

/**
 * Compares a document with the verified statement.
 * @param name its file name, whose ending is the format.
 * @throws {StatementFileError} when it differs, or has another format.
 */
export async function verifyPrinted(
  name: string,
  bytes: Buffer,
  verified: Pick<VerifiedStatement, 'statement' | 'digest' | 'invoice' | 'issued_at'>,
): Promise<void> {
  const { statement, digest, invoice, issued_at: at } = verified;
  switch (path.extname(name)) {
    case '.json':
      return verifyJson(name, bytes.toString(), verified);
    case '.csv':
      if (bytes.toString() === statementCsv(statement)) return;
      throw new StatementFileError(`${name} is not the CSV of the proven statement`);
    case '.pdf': {
      const document = documentOf(invoice === null || at === null ? null : { document: invoice, at });
      if ((await renderPdf({ statement, digest, document }))?.equals(bytes) === true) return;
      throw new StatementFileError(
        `${name} is not the PDF of the proven statement, as this release makes it; a PDF of another ` +
          'release is verified by that release',
      );
    }
    default:
      throw new StatementFileError(`${name} is no document of a statement: .json, .csv or .pdf`);
  }
}

/** The JSON of the API, or of the command. */
function verifyJson(
  name: string,
  text: string,
  { statement, digest, invoice }: Pick<VerifiedStatement, 'statement' | 'digest' | 'invoice'>,
): void {
  let parsed: Record<string, unknown>;
  try {
    parsed = JSON.parse(text) as Record<string, unknown>;
  } catch {
    throw new StatementFileError(`${name} is not JSON`);
  }
  const expected = {
    ...statement,
    ...('object' in parsed ? { object: 'statement', digest } : { invoice }),
  };
  const difference = firstDifference(
    JSON.parse(canonicalJson(expected)) as Parameters<typeof firstDifference>[0],
    parsed as Parameters<typeof firstDifference>[0],
  );
  if (difference !== null)
    throw new StatementFileError(`${name} differs from the proven statement at ${difference}`);
}
