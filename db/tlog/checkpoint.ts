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
 * Checkpoints (c2sp.org/tlog-checkpoint): the head of a log, signed. Three lines: which log, how
 * many events, and the root of their Merkle tree. Pure.
 */

/** `origin` names the log. Its size is the position of the newest event that the checkpoint covers. */
export type Checkpoint = Head & { origin: string };

const SIZE = /^(?:0|[1-9]\d{0,15})$/;

export function formatCheckpoint({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

/** The head that the text of a note tells. @throws {NoteError} where it is no checkpoint. */
export function parseCheckpoint(text: string): Checkpoint {
  const [origin = '', size = '', encoded = '', ...more] = text.split('\n');
  const root = fromBase64(encoded);
  const isWhole =
    origin !== '' && SIZE.test(size) && Number.isSafeInteger(Number(size)) && root?.length === HASH_BYTES;
  // Lines behind the third are allowed, but none of them is empty; the last element is what follows the last
  // line break.
  if (!isWhole || more.at(-1) !== '' || more.slice(0, -1).includes(''))
    throw new NoteError('the note is no checkpoint');
  return { origin, size: Number(size), root };
}

/** Signs a head with every key of a log: one, or two while one takes the other's place. */
export function signCheckpoint(checkpoint: Checkpoint, signers: readonly Signer[]): string {
  const text = formatCheckpoint(checkpoint);
  return formatNote({ text, signatures: signers.map((signer) => signText(text, signer)) });
}

/** A checkpoint that a key of its log has signed, and who else of those that are known. */
export type SignedCheckpoint = { checkpoint: Checkpoint; note: Note; verified: Verified[] };

/**
 * Reads a checkpoint and checks who signed it.
 * @param verifiers keys of the log, of which one must have signed, and of witnesses.
 * @throws {NoteError} where none has, where a signature is wrong, or where it is of another log than its key.
 */
export function openCheckpoint(signed: string, verifiers: readonly Verifier[]): SignedCheckpoint {
  const note = parseNote(signed);
  const verified = verifyNote(note, verifiers);
  const checkpoint = parseCheckpoint(note.text);
  if (!verified.some(({ verifier }) => verifier.kind === 'ed25519' && verifier.name === checkpoint.origin)) {
    throw new NoteError('no key of the log that is known has signed the checkpoint');
  }
  return { checkpoint, note, verified };
}
