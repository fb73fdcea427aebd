import { z } from 'zod';
import { EVENT_CODES } from '#db/events/events.ts';
import { leafHash, LINE_FORMAT } from '#db/log/chain.ts';
import { AT } from '#db/log/columns.ts';
import { type Cells, cellsOf, type LinePlace, splitEntry } from '#db/log/line.ts';
import type { SignedCheckpoint } from '#db/tlog/checkpoint.ts';
import { fromBase64 } from '#db/tlog/note.ts';
import {
  type TrustedKeys,
  UntrustedCheckpointError,
  type VerifiedCheckpoint,
  verifyPortableCheckpoint,
} from '#db/tlog/portable-checkpoint.ts';
import { PROOF_HASHES_MAX, rootByInclusion } from '#db/tlog/proof.ts';

/**
 * Receipts: the events of one request with its corrections, each with its inclusion proof, and one signed
 * checkpoint that covers them all. A receipt is verified offline with the log's verifier key. Pure.
 */

/** Extensions of a reservation grow in size, so a request has a dozen events at most. */
export const RECEIPT_EVENTS_MAX = 200;
/** Many times the size of a receipt with that many events. */
export const RECEIPT_BYTES_MAX = 4 * 1024 * 1024;
/** Both keys during a key rotation; and more witnesses than any log has. */
const KEYS_MAX = 100;

const ReceiptEvent = z.strictObject({
  position: z.int().positive(),
  /** The event with its place in the log, which the leaf hash covers. */
  entry: z.string(),
  /** The format of its batch. */
  format: z.string(),
  /** The leaf index: the position minus one. */
  index: z.int().nonnegative(),
  /** The inclusion proof: hashes in base64, from the leaf's sibling up. */
  proof: z.array(z.string()).max(PROOF_HASHES_MAX),
});

export const Receipt = z.strictObject({
  receipt: z.literal('daybook receipt 1'),
  request: z.uuid(),
  /** The origin of the log. */
  log: z.string(),
  /** False if the request has too many events, so that only the first and the last ones are included. */
  has_all_events: z.boolean(),
  events: z.array(ReceiptEvent).min(1).max(RECEIPT_EVENTS_MAX),
  /** The checkpoint, as a signed note. */
  checkpoint: z.string(),
  /**
   * The verifier keys of the log and of the witnesses that signed the checkpoint. The reader should compare
   * them with keys from another source.
   */
  keys: z.array(z.string()).min(1).max(KEYS_MAX),
  witnesses: z.array(z.string()).max(KEYS_MAX),
});
export type Receipt = z.infer<typeof Receipt>;

/** The receipt is invalid. The message says why. */
export class ReceiptError extends Error {
  override name = 'ReceiptError';
}

/** A receipt that was verified. */
export type VerifiedReceipt = { receipt: Receipt } & VerifiedCheckpoint;

/**
 * Verifies a receipt.
 * @param value the parsed JSON.
 * @throws {ReceiptError} at the first problem.
 */
export function verifyReceipt(value: unknown, known: TrustedKeys): VerifiedReceipt {
  const parsed = Receipt.safeParse(value);
  if (!parsed.success)
    throw new ReceiptError(
      `not a receipt of this format (${parsed.error.issues[0]?.path.join('.') || 'its fields'})`,
    );
  const receipt = parsed.data;
  const signed = openReceiptCheckpoint(receipt, known);
  const events = receipt.events.map((event) => verifyEvent(event, signed.checkpoint));
  requireCompleteRequest(receipt, events);
  return { receipt, ...signed };
}

function openReceiptCheckpoint(receipt: Receipt, known: TrustedKeys): VerifiedCheckpoint {
  try {
    return verifyPortableCheckpoint(receipt, known);
  } catch (error) {
    if (error instanceof UntrustedCheckpointError) throw new ReceiptError(error.message, { cause: error });
    throw error;
  }
}

/** Verifies the inclusion of an event. @returns its fields. */
function verifyEvent(
  { position, entry, format, index, proof }: Receipt['events'][number],
  { size, root }: SignedCheckpoint['checkpoint'],
): Cells {
  if (format !== LINE_FORMAT)
    throw new ReceiptError(`event ${position} has a format that this version does not support`);
  const { place, cells } = readEntry(entry, position);
  if (index !== position - 1 || place.position !== position)
    throw new ReceiptError(`event ${position} has another position or index than it states`);
  const hashes = proof.map(fromBase64);
  if (
    !hashes.every((hash) => hash !== null) ||
    !rootByInclusion(leafHash(entry), index, size, hashes)?.equals(root)
  ) {
    throw new ReceiptError(`event ${position} is not included in the log at that position`);
  }
  return cells;
}

function readEntry(entry: string, position: number): { place: LinePlace; cells: Cells } {
  try {
    const { place, line } = splitEntry(entry);
    return { place, cells: cellsOf(line) };
  } catch (error) {
    throw new ReceiptError(`event ${position} is not an entry of a log`, { cause: error });
  }
}

const [ACCEPTED, EXTENDED, SETTLED, ABANDONED, REFUSED, ADJUSTED] = (
  [
    'request.accepted',
    'request.extended',
    'request.settled',
    'request.abandoned',
    'request.rejected',
    'usage.adjusted',
  ] as const
).map((type) => String(EVENT_CODES[type]));

/** Checks that the events are those of one complete request, in order, and then its corrections. */
function requireCompleteRequest({ request, events }: Receipt, read: readonly Cells[]): void {
  if (read.some((cells) => cells[AT.request] !== request))
    throw new ReceiptError('an event is of another request');
  if (events.some(({ position }, at) => at > 0 && position <= (events[at - 1]?.position as number)))
    throw new ReceiptError('its events are not in the order of the log');
  const types = read.map((cells) => cells[AT.type]);
  const end = types.findLastIndex((type) => type !== ADJUSTED);
  const [first, ...rest] = types.slice(0, end + 1);
  const last = rest.pop();
  const isRejected = first === REFUSED && types.length === 1;
  const isComplete =
    first === ACCEPTED && (last === SETTLED || last === ABANDONED) && rest.every((type) => type === EXTENDED);
  if (!isRejected && !isComplete) throw new ReceiptError('its events are not those of a complete request');
}

/**
 * The inclusion proof of the last event in the format of c2sp.org/tlog-proof. The extra data is the
 * entry: SHA-256 of a zero byte and these bytes is the leaf hash.
 */
export function formatTlogProof({ events, checkpoint }: Receipt): string {
  const { entry, index, proof } = events.at(-1) as Receipt['events'][number];
  return [
    'c2sp.org/tlog-proof@v1',
    `extra ${Buffer.from(entry).toString('base64')}`,
    `index ${index}`,
    ...proof,
    '',
    checkpoint,
  ].join('\n');
}
