import { createPrivateKey, createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';

/**
 * Signed notes (c2sp.org/signed-note) and cosignatures of witnesses (c2sp.org/tlog-cosignature): a text, an
 * empty line, and one line per signature. Pure, except for Node's Ed25519.
 */

/** The signature types, by the byte that enters the key ID. */
const KINDS = { ed25519: 0x01, cosignature: 0x04 } as const;
type Kind = keyof typeof KINDS;

/** A signature line. `bytes` are those after the key ID. */
export type Signature = { name: string; keyId: string; bytes: Buffer };
export type Note = { text: string; signatures: Signature[] };

/** A verifier key: `ed25519` for logs, `cosignature` for witnesses. `keyId` has eight hexadecimal digits. */
export type Verifier = { name: string; kind: Kind; keyId: string; publicKey: KeyObject };
export type Signer = Verifier & { privateKey: KeyObject };

/** An invalid note or key. The message never contains the input. */
export class NoteError extends Error {
  override name = 'NoteError';
}

/** Many times the length of a checkpoint with all its cosignatures. */
const NOTE_CHARACTERS_MAX = 64 * 1024;
const KEY_ID_BYTES = 4;
const TIME_BYTES = 8;
const SIGNATURE_BYTES = 64;
const NAME = /^[^\s+\p{Z}]+$/u;

/** Decodes canonical standard base64. @returns null for any other text. */
export function fromBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : null;
}

/** Parses a note without verifying its signatures. @throws {NoteError} */
export function parseNote(note: string): Note {
  if (note.length > NOTE_CHARACTERS_MAX) throw new NoteError('the note is too long');
  if (/[^\P{Cc}\n]/u.test(note) || !note.isWellFormed())
    throw new NoteError('the note has invalid characters');
  const border = note.lastIndexOf('\n\n');
  if (border < 0 || !note.endsWith('\n')) throw new NoteError('the note has no signatures');
  const lines = note.slice(border + 2, -1).split('\n');
  return { text: note.slice(0, border + 1), signatures: lines.map(parseSignature) };
}

/** Parses a signature line. @throws {NoteError} */
export function parseSignature(line: string): Signature {
  const [dash, name, encoded, ...more] = line.split(' ');
  const bytes = fromBase64(encoded ?? '');
  if (
    dash !== '—' ||
    !NAME.test(name ?? '') ||
    bytes === null ||
    bytes.length <= KEY_ID_BYTES ||
    more.length > 0
  )
    throw new NoteError('the note has an invalid signature line');
  return {
    name: name as string,
    keyId: bytes.toString('hex', 0, KEY_ID_BYTES),
    bytes: bytes.subarray(KEY_ID_BYTES),
  };
}

export function formatSignature({ name, keyId, bytes }: Signature): string {
  return `— ${name} ${Buffer.concat([Buffer.from(keyId, 'hex'), bytes]).toString('base64')}\n`;
}

/** Serializes a note, whose text must end with a line break. */
export function formatNote({ text, signatures }: Note): string {
  return `${text}\n${signatures.map(formatSignature).join('')}`;
}

/** The 32 bytes of an Ed25519 public key, which follow a fixed prefix in Node's encoding. */
const rawKey = (publicKey: KeyObject): Buffer =>
  publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

function verifierOf(name: string, kind: Kind, publicKey: KeyObject): Verifier {
  const keyId = hash(
    'sha256',
    Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(KINDS[kind]), rawKey(publicKey)]),
  ).slice(0, 2 * KEY_ID_BYTES);
  return { name, kind, keyId, publicKey };
}

/**
 * The signer with this name and an Ed25519 key in PEM.
 * @throws {NoteError} when the name or the key is invalid.
 */
export function signerOf(name: string, kind: Kind, pem: string): Signer {
  if (!NAME.test(name)) throw new NoteError('a key name has no spaces and no "+"');
  try {
    const privateKey = createPrivateKey(pem);
    if (privateKey.asymmetricKeyType !== 'ed25519') throw new NoteError('the key is not an Ed25519 key');
    return { ...verifierOf(name, kind, createPublicKey(privateKey)), privateKey };
  } catch (error) {
    throw error instanceof NoteError ? error : new NoteError('the key is not a private key in PEM');
  }
}

/** Formats a verifier key as one line. */
export function formatVerifierKey({ name, kind, keyId, publicKey }: Verifier): string {
  return `${name}+${keyId}+${Buffer.concat([Buffer.of(KINDS[kind]), rawKey(publicKey)]).toString('base64')}`;
}

/** Parses a verifier key line. @throws {NoteError} */
export function parseVerifierKey(line: string): Verifier {
  const [, name, keyId, encoded] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(line) ?? [];
  const bytes = fromBase64(encoded ?? '');
  const kind = (Object.keys(KINDS) as Kind[]).find((each) => KINDS[each] === bytes?.[0]);
  if (name === undefined || !NAME.test(name) || bytes?.length !== 33 || kind === undefined)
    throw new NoteError('not a verifier key, which has the form NAME+ID+KEY');
  const publicKey = createPublicKey({
    key: Buffer.concat([SPKI_PREFIX, bytes.subarray(1)]),
    format: 'der',
    type: 'spki',
  });
  const verifier = verifierOf(name, kind, publicKey);
  if (verifier.keyId !== keyId)
    throw new NoteError('the key ID of the verifier key does not match its name and key');
  return verifier;
}

/** The signed message of a cosignature at a time in seconds since 1970. */
const cosigned = (text: string, timeSecs: bigint): Buffer =>
  Buffer.from(`cosignature/v1\ntime ${timeSecs}\n${text}`);

/** Signs the text of a note. @param timeSecs for cosignatures, seconds since 1970. */
export function signText(text: string, signer: Signer, timeSecs = 0): Signature {
  const { name, keyId, privateKey, kind } = signer;
  if (kind === 'ed25519') return { name, keyId, bytes: sign(null, Buffer.from(text), privateKey) };
  const time = Buffer.alloc(TIME_BYTES);
  time.writeBigUInt64BE(BigInt(timeSecs));
  return {
    name,
    keyId,
    bytes: Buffer.concat([time, sign(null, cosigned(text, BigInt(timeSecs)), privateKey)]),
  };
}

/** A verified signature. `timeSecs` is the time of a cosignature, in seconds since 1970. */
export type Verified = { verifier: Verifier; timeSecs: number | null };

/**
 * Verifies the signatures of these keys on a note. Signatures of unknown keys are ignored, as the format
 * requires.
 * @throws {NoteError} when a signature of a known key is invalid.
 */
export function verifyNote({ text, signatures }: Note, verifiers: readonly Verifier[]): Verified[] {
  return signatures.flatMap((signature) => {
    const verifier = verifiers.find(
      ({ name, keyId }) => name === signature.name && keyId === signature.keyId,
    );
    if (verifier === undefined) return [];
    const verified = verifyOne(text, signature.bytes, verifier);
    if (verified === null) throw new NoteError(`the signature of ${verifier.name} is invalid`);
    return [verified];
  });
}

function verifyOne(text: string, bytes: Buffer, verifier: Verifier): Verified | null {
  const { kind, publicKey } = verifier;
  if (kind === 'ed25519')
    return bytes.length === SIGNATURE_BYTES && verify(null, Buffer.from(text), publicKey, bytes)
      ? { verifier, timeSecs: null }
      : null;
  if (bytes.length !== TIME_BYTES + SIGNATURE_BYTES) return null;
  const timeSecs = bytes.readBigUInt64BE();
  return verify(null, cosigned(text, timeSecs), publicKey, bytes.subarray(TIME_BYTES))
    ? { verifier, timeSecs: Number(timeSecs) }
    : null;
}
