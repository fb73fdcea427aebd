import { HASH_BYTES, type Head } from '#db/tlog/merkle.ts';
import {
  formatNote,
  fromBase64,
  type Note,
  NoteError,
  parseNote,
  type Signer,
  signText,
  type Verified,
  type Verifier,
  verifyNote,
} from '#db/tlog/note.ts';

/**
 * Checkpoints (c2sp.org/tlog-checkpoint): signed tree heads. Three lines: the origin of the log, the number
 * of events, and the root hash of their Merkle tree. Pure.
 */

/** `origin` names the log. Its size is the position of the newest event that the checkpoint covers. */
export type Checkpoint = Head & { origin: string };

const SIZE = /^(?:0|[1-9]\d{0,15})$/;

export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

/** Parses the text of a note. @throws {NoteError} when it is not a checkpoint. */
export function parseCheckpoint(text: string): Checkpoint {
  const [origin = '', size = '', encoded = '', ...more] = text.split('\n');
  const root = fromBase64(encoded);
  const isValid =
    origin !== '' && SIZE.test(size) && Number.isSafeInteger(Number(size)) && root?.length === HASH_BYTES;
  // Extension lines are allowed after the third line, but no empty ones. The last element is the text after
  // the last line break.
  if (!isValid || more.at(-1) !== '' || more.slice(0, -1).includes(''))
    throw new NoteError('the note is not a checkpoint');
  return { origin, size: Number(size), root };
}

/** Signs a tree head with every key of a log: one, or two during a key rotation. */
export function signCheckpoint(checkpoint: Checkpoint, signers: readonly Signer[]): string {
  const text = formatCheckpoint(checkpoint);
  return formatNote({ text, signatures: signers.map((signer) => signText(text, signer)) });
}

/** A checkpoint that is signed by a key of its log, with all verified signatures. */
export type SignedCheckpoint = { checkpoint: Checkpoint; note: Note; verified: Verified[] };

/**
 * Parses a checkpoint and verifies its signatures.
 * @param verifiers keys of the log, one of which must have signed, and keys of witnesses.
 * @throws {NoteError} when none has signed, a signature is invalid, or the origin is not the key's.
 */
export function openCheckpoint(signed: string, verifiers: readonly Verifier[]): SignedCheckpoint {
  const note = parseNote(signed);
  const verified = verifyNote(note, verifiers);
  const checkpoint = parseCheckpoint(note.text);
  if (!verified.some(({ verifier }) => verifier.kind === 'ed25519' && verifier.name === checkpoint.origin)) {
    throw new NoteError('the checkpoint is not signed by a known key of the log');
  }
  return { checkpoint, note, verified };
}
