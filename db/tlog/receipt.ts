import { z } from 'zod';
import { parseLine } from '#db/archive/line.ts';
import { compositeText, coveredColumns, type LeafRow, leafOf } from '#db/log/chain.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { openCheckpoint, parseCheckpoint, type SignedCheckpoint } from '#db/tlog/checkpoint.ts';
import {
  formatVerifierKey,
  fromBase64,
  parseNote,
  parseVerifierKey,
  type Verified,
  type Verifier,
} from '#db/tlog/note.ts';
import { PROOF_HASHES_MAX, rootByInclusion } from '#db/tlog/proof.ts';

/**
 * A receipt: the events of one request, each with the proof that it is in the log, and one signed
 * checkpoint that covers them all. Whoever knows the log's key checks it with nothing else at hand. Pure.
 */

/** Holds grow by steps that become larger, so a request has a dozen events where it has many. */
export const RECEIPT_EVENTS_MAX = 200;
/** Many times what a receipt with so many events is. */
export const RECEIPT_BYTES_MAX = 4 * 1024 * 1024;
/** Both keys while one takes the other's place, or as many witnesses as anybody has. */
const KEYS_MAX = 100;

const ReceiptEvent = z.strictObject({
  position: z.int().positive(),
  /** The event as a line of an archive file. */
  line: z.string(),
  /** Which of its fields its leaf covers: the format of its batch. */
  format: z.string(),
  /** Of its leaf: one less than the position. */
  index: z.int().nonnegative(),
  /** Hashes in base64, from the leaf's sibling up. */
  proof: z.array(z.string()).max(PROOF_HASHES_MAX),
});

export const Receipt = z.strictObject({
  receipt: z.literal('daybook receipt 1'),
  request: z.uuid(),
  /** The name of the log. */
  log: z.string(),
  /** False where the request was so long under way that its beginning and its end alone are here. */
  has_all_events: z.boolean(),
  events: z.array(ReceiptEvent).min(1).max(RECEIPT_EVENTS_MAX),
  /** A signed note. */
  checkpoint: z.string(),
  /**
   * The keys of the log and of the witnesses that have signed it. They are only as good as where the reader
   * knows them from.
   */
  keys: z.array(z.string()).min(1).max(KEYS_MAX),
  witnesses: z.array(z.string()).max(KEYS_MAX),
});
export type Receipt = z.infer<typeof Receipt>;

/** It proves nothing; the message says why, for people. */
export class ReceiptError extends Error {
  override name = 'ReceiptError';
}

/** What a receipt proves. */
export type Opened = {
  receipt: Receipt;
  checkpoint: SignedCheckpoint['checkpoint'];
  /** The keys of the log that have signed the checkpoint. */
  signers: Verifier[];
  /** False where the reader named no key, so that it is the receipt's own word whose log this is. */
  isKeyKnown: boolean;
  cosignatures: Verified[];
};

/**
 * Whom the reader knows: keys of the log, none where they know none, and the witnesses that must have
 * cosigned.
 */
export type Known = { keys: readonly Verifier[]; witnesses: readonly Verifier[] };

/**
 * Checks all of a receipt.
 * @param value what JSON made of it.
 * @throws {ReceiptError} at the first thing that does not hold.
 */
export function openReceipt(value: unknown, known: Known): Opened {
  const parsed = Receipt.safeParse(value);
  if (!parsed.success)
    throw new ReceiptError(
      `it is no receipt of this kind (${parsed.error.issues[0]?.path.join('.') || 'its fields'})`,
    );
  const receipt = parsed.data;
  const signed = openSigned(receipt, known);
  if (signed.checkpoint.origin !== receipt.log)
    throw new ReceiptError(
      `it says that it is of the log ${receipt.log}, and its checkpoint is of ${signed.checkpoint.origin}`,
    );
  const rows = receipt.events.map((event) => provedRow(event, signed.checkpoint));
  requireStory(receipt, rows);
  return { receipt, ...signed };
}

const lineOf = formatVerifierKey;

function openSigned({ checkpoint: note, ...named }: Receipt, known: Known): Omit<Opened, 'receipt'> {
  try {
    const logKeys = [...named.keys.map(parseVerifierKey), ...known.keys];
    const everybody = [...logKeys, ...named.witnesses.map(parseVerifierKey), ...known.witnesses];
    const { origin } = parseCheckpoint(parseNote(note).text);
    const {
      checkpoint,
      note: { signatures },
      verified,
    } = openCheckpoint(note, everybody);
    if (verified.length !== signatures.length)
      throw new ReceiptError('its checkpoint has a signature of somebody whose key is not there');
    const trusted = new Set((known.keys.length > 0 ? known.keys : logKeys).map(lineOf));
    const signers = verified
      .map(({ verifier }) => verifier)
      .filter((each) => each.kind === 'ed25519' && each.name === origin && trusted.has(lineOf(each)));
    if (signers.length === 0) throw new ReceiptError('its checkpoint is not signed by the key that you know');
    const cosignatures = verified.filter(({ verifier }) => verifier.kind === 'cosignature');
    const missing = known.witnesses.find(
      (witness) => !cosignatures.some(({ verifier }) => lineOf(verifier) === lineOf(witness)),
    );
    if (missing) throw new ReceiptError(`${missing.name} has not cosigned its checkpoint`);
    return { checkpoint, signers, isKeyKnown: known.keys.length > 0, cosignatures };
  } catch (error) {
    throw error instanceof ReceiptError
      ? error
      : new ReceiptError(`its checkpoint proves nothing: ${(error as Error).message}`, { cause: error });
  }
}

/** The row of an event, which is in the log at its place. */
function provedRow(
  { position, line, format, index, proof }: Receipt['events'][number],
  { size, root }: SignedCheckpoint['checkpoint'],
): LeafRow {
  const row = readRow(line, position);
  const covered = coveredColumns(format);
  if (covered === undefined)
    throw new ReceiptError(`event ${position} is of a format that this version does not know`);
  if (row.slice(covered).some((field) => field !== null))
    throw new ReceiptError(`event ${position} says more than its format covers`);
  if (index !== position - 1 || row[POSITION_AT] !== String(position))
    throw new ReceiptError(`event ${position} stands at another place than it says`);
  const hashes = proof.map(fromBase64);
  if (
    !hashes.every((hash) => hash !== null) ||
    !rootByInclusion(leafOf(row, format), index, size, hashes)?.equals(root)
  ) {
    throw new ReceiptError(`event ${position} is not what the log has at that place`);
  }
  return row;
}

function readRow(line: string, position: number): LeafRow {
  try {
    // One event has one spelling, or two receipts could say the same and look different.
    if (JSON.stringify(JSON.parse(line)) === line) {
      const read = parseLine(line, 0);
      if ('event' in read) return read.event;
    }
  } catch {
    // It is none, whatever is wrong with it.
  }
  throw new ReceiptError(`event ${position} is not written as one of the log is`);
}

/** Where a row has what tells events of requests apart. */
const POSITION_AT = 1;
const TYPE_AT = 3;
const REQUEST_AT = 5;
const [ACCEPTED, EXTENDED, SETTLED, ABANDONED, REFUSED] = (
  [
    'request.accepted',
    'request.extended',
    'request.settled',
    'request.abandoned',
    'request.rejected',
  ] as const
).map((type) => String(EVENT_CODES[type]));

/**
 * That the events are of this request alone, and tell of it from its beginning to its end, in their order.
 */
function requireStory({ request, events }: Receipt, rows: readonly LeafRow[]): void {
  if (rows.some((row) => row[REQUEST_AT] !== request))
    throw new ReceiptError('one of its events is of another request');
  if (events.some(({ position }, at) => at > 0 && position <= (events[at - 1]?.position as number)))
    throw new ReceiptError('its events are not in the order of the log');
  const [first, ...rest] = rows.map((row) => row[TYPE_AT]);
  const last = rest.pop();
  const isRefused = first === REFUSED && last === undefined;
  const isWhole =
    first === ACCEPTED && (last === SETTLED || last === ABANDONED) && rest.every((type) => type === EXTENDED);
  if (!isRefused && !isWhole)
    throw new ReceiptError('its events do not tell of a request from its beginning to its end');
}

/**
 * The proof of the last event alone, as c2sp.org/tlog-proof has it. What the log holds at that place
 * goes with it as the extra data: SHA-256 of a zero byte and these bytes is the leaf.
 */
export function formatTlogProof({ events, checkpoint }: Receipt): string {
  const { line, format, index, proof } = events.at(-1) as Receipt['events'][number];
  const read = parseLine(line, 0);
  if (!('event' in read)) throw new ReceiptError('its last event is none');
  const content = compositeText(read.event.slice(0, coveredColumns(format)));
  return [
    'c2sp.org/tlog-proof@v1',
    `extra ${Buffer.from(content).toString('base64')}`,
    `index ${index}`,
    ...proof,
    '',
    checkpoint,
  ].join('\n');
}
