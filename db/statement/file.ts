import { z } from 'zod';
import type { Placed } from '#db/events/events.ts';
import { leafHash } from '#db/log/chain.ts';
import { splitEntry } from '#db/log/line.ts';
import { dateOf, readLine, UnreadableEventError } from '#db/log/read.ts';
import { canonicalJson, digestOf, firstDifference } from '#db/statement/canonical.ts';
import { type Statement, StatementParameters } from '#db/statement/document.ts';
import { foldStatement } from '#db/statement/fold.ts';
import { type BilledDocument, documentTitle } from '#db/statement/invoices.ts';
import { isIncluded } from '#db/tlog/multi-proof.ts';
import { fromBase64 } from '#db/tlog/note.ts';
import {
  type TrustedKeys,
  UntrustedCheckpointError,
  type VerifiedCheckpoint,
  verifyPortableCheckpoint,
} from '#db/tlog/portable-checkpoint.ts';

/**
 * A statement with its proof, in one file that is verified offline: the statement, every event that it is
 * computed from, one inclusion proof for all of them, and a signed checkpoint of the log. The verifier
 * computes the statement from the proven events and compares every figure. Pure.
 */

/** More than an account of a hundred calls a minute makes in a day: a longer period is several files. */
export const STATEMENT_EVENTS_MAX = 200_000;
/** Some times the size of a file with that many events. */
export const STATEMENT_FILE_BYTES_MAX = 512 * 1024 * 1024;
/** Both keys during a key rotation; and more witnesses than any log has. */
const KEYS_MAX = 100;

export const StatementFile = z.strictObject({
  file: z.literal('daybook statement proof 1'),
  /** The statement; the verifier computes it again. */
  statement: z.looseObject(StatementParameters.shape),
  /** SHA-256 of the canonical statement, which an invoice in the log names. */
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  /** The position of the invoice or credit note of this statement, whose event is among the entries. */
  invoice_position: z.int().positive().nullable(),
  /** The events with their places in the log, in order. */
  entries: z.array(z.string()).min(1).max(STATEMENT_EVENTS_MAX),
  /** The hashes of the inclusion proof in base64; see `db/tlog/multi-proof.ts`. */
  proof: z.array(z.string()),
  checkpoint: z.string(),
  keys: z.array(z.string()).min(1).max(KEYS_MAX),
  witnesses: z.array(z.string()).max(KEYS_MAX),
});
export type StatementFile = Omit<z.infer<typeof StatementFile>, 'statement'> & { statement: Statement };

/** The file proves nothing. The message says why, with the first wrong figure. */
export class StatementFileError extends Error {
  override name = 'StatementFileError';
}

export type VerifiedStatement = VerifiedCheckpoint & {
  statement: Statement;
  digest: string;
  events: number;
  /** The invoice or credit note in the log that bills this very statement; null: none in the file. */
  invoice: BilledDocument | null;
  /** When the log recorded it. */
  issued_at: Date | null;
};

/** The event of an entry. @throws {StatementFileError} when it is not of the vocabulary. */
export function eventOfEntry(entry: string): Placed {
  try {
    const { place, line } = splitEntry(entry);
    const read = readLine(place.position, dateOf(place.atUs), place.instance, line);
    if (!(read instanceof UnreadableEventError)) return read;
  } catch {
    // Reported below.
  }
  throw new StatementFileError('an entry is not an event that this version can read');
}

/**
 * Verifies a file.
 * @param value the parsed JSON.
 * @throws {StatementFileError} at the first problem.
 */
export function verifyStatementFile(value: unknown, known: TrustedKeys): VerifiedStatement {
  const parsed = StatementFile.safeParse(value);
  if (!parsed.success)
    throw new StatementFileError(
      `it is not a statement file of this format (${parsed.error.issues[0]?.path.join('.') || 'its fields'})`,
    );
  const { statement: stated, ...file } = parsed.data;
  const signed = openCheckpoint({ ...file, log: stated.log }, known);
  const events = file.entries.map(eventOfEntry);
  verifyInclusion(file, events, signed.checkpoint);
  const computed = foldStatement(StatementParameters.strip().parse(stated), events);
  const difference = firstDifference(computed, stated as unknown as Statement);
  if (difference !== null)
    throw new StatementFileError(
      `${difference} is ${shown(stated, difference)}, and the proven events add up to ` +
        shown(computed, difference),
    );
  if (digestOf(computed) !== file.digest)
    throw new StatementFileError(
      'digest is not that of the statement: its period or another part was changed',
    );
  return {
    ...signed,
    statement: computed,
    digest: file.digest,
    events: events.length,
    ...invoiceOf(computed, file, events),
  };
}

function openCheckpoint(
  portable: Parameters<typeof verifyPortableCheckpoint>[0],
  known: TrustedKeys,
): VerifiedCheckpoint {
  try {
    return verifyPortableCheckpoint(portable, known);
  } catch (error) {
    if (error instanceof UntrustedCheckpointError)
      throw new StatementFileError(error.message, { cause: error });
    throw error;
  }
}

function verifyInclusion(
  { entries, proof }: Pick<StatementFile, 'entries' | 'proof'>,
  events: readonly Placed[],
  head: VerifiedCheckpoint['checkpoint'],
): void {
  const hashes = proof.map(fromBase64);
  const leaves = entries.map((entry, at) => ({
    index: (events[at] as Placed).position - 1,
    hash: leafHash(entry),
  }));
  if (!hashes.every((hash) => hash !== null) || !isIncluded(leaves, head, hashes))
    throw new StatementFileError(
      'its events are not those of the log at their positions: an entry or a hash of the proof was changed',
    );
}

/** The invoice that the file names. @throws {StatementFileError} when it bills another statement. */
function invoiceOf(
  statement: Statement,
  { digest, invoice_position: position }: Pick<StatementFile, 'digest' | 'invoice_position'>,
  events: readonly Placed[],
): Pick<VerifiedStatement, 'invoice' | 'issued_at'> {
  if (position === null) return { invoice: null, issued_at: null };
  const placed = events.find((each) => each.position === position);
  const event = placed?.event;
  if (event?.type !== 'invoice.issued' && event?.type !== 'invoice.corrected')
    throw new StatementFileError('invoice_position is not the position of an invoice among its entries');
  if (event.digest !== digest || event.account !== statement.account)
    throw new StatementFileError(`${documentTitle(event)} bills another statement`);
  return { invoice: event, issued_at: placed?.at ?? null };
}

/** A part of a document, as text for an error. */
function shown(document: unknown, path: string): string {
  let value: unknown = document;
  for (const name of path.split(/[.[\]]+/).filter((part) => part !== ''))
    value = (value as Record<string, unknown> | undefined)?.[name];
  return value === undefined ? 'absent' : (JSON.stringify(value) ?? '').slice(0, 200);
}

/** The text of a file, in parts of some megabytes at most. */
export function* statementFileParts(file: StatementFile): Generator<string> {
  const { statement, entries, proof, ...rest } = file;
  yield `{"statement":${canonicalJson(statement)},"entries":`;
  yield* listParts(entries);
  yield ',"proof":';
  yield* listParts(proof);
  yield `,${JSON.stringify(rest).slice(1)}\n`;
}

const TEXTS_PER_PART = 5_000;

function* listParts(texts: readonly string[]): Generator<string> {
  yield '[';
  for (let at = 0; at < texts.length; at += TEXTS_PER_PART) {
    const part = JSON.stringify(texts.slice(at, at + TEXTS_PER_PART)).slice(1, -1);
    yield at === 0 ? part : `,${part}`;
  }
  yield ']';
}
