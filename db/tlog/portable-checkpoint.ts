import { openCheckpoint, parseCheckpoint, type SignedCheckpoint } from '#db/tlog/checkpoint.ts';
import {
  formatVerifierKey,
  parseNote,
  parseVerifierKey,
  type Verified,
  type Verifier,
} from '#db/tlog/note.ts';

/** A checkpoint in a file that is verified offline, with the keys that signed it. Pure. */

export type PortableCheckpoint = {
  /** The origin of the log. */
  log: string;
  /** The checkpoint, as a signed note. */
  checkpoint: string;
  /**
   * The verifier keys of the log and of the witnesses that signed the checkpoint. The reader should compare
   * them with keys from another source.
   */
  keys: readonly string[];
  witnesses: readonly string[];
};

/** The keys that the reader trusts: of the log, possibly none, and of witnesses that must have cosigned. */
export type TrustedKeys = { keys: readonly Verifier[]; witnesses: readonly Verifier[] };

export type VerifiedCheckpoint = {
  checkpoint: SignedCheckpoint['checkpoint'];
  /** The keys of the log that signed the checkpoint. */
  signers: Verifier[];
  /** False if the reader gave no key, so that the file's own keys were trusted. */
  isKeyKnown: boolean;
  cosignatures: Verified[];
};

/** The checkpoint is invalid or not trusted. The message says why. */
export class UntrustedCheckpointError extends Error {
  override name = 'UntrustedCheckpointError';
}

/** Verifies the signatures. @throws {UntrustedCheckpointError} */
export function verifyPortableCheckpoint(
  { log, checkpoint: note, ...named }: PortableCheckpoint,
  known: TrustedKeys,
): VerifiedCheckpoint {
  try {
    const logKeys = [...named.keys.map(parseVerifierKey), ...known.keys];
    const allKeys = [...logKeys, ...named.witnesses.map(parseVerifierKey), ...known.witnesses];
    const { origin } = parseCheckpoint(parseNote(note).text);
    const {
      checkpoint,
      note: { signatures },
      verified,
    } = openCheckpoint(note, allKeys);
    if (verified.length !== signatures.length)
      throw new UntrustedCheckpointError('its checkpoint has a signature without a key in the file');
    const trusted = new Set((known.keys.length > 0 ? known.keys : logKeys).map(formatVerifierKey));
    const signers = verified
      .map(({ verifier }) => verifier)
      .filter(
        (each) => each.kind === 'ed25519' && each.name === origin && trusted.has(formatVerifierKey(each)),
      );
    if (signers.length === 0)
      throw new UntrustedCheckpointError('its checkpoint is not signed by the given key');
    const cosignatures = verified.filter(({ verifier }) => verifier.kind === 'cosignature');
    const missing = known.witnesses.find(
      (witness) =>
        !cosignatures.some(({ verifier }) => formatVerifierKey(verifier) === formatVerifierKey(witness)),
    );
    if (missing) throw new UntrustedCheckpointError(`${missing.name} has not cosigned its checkpoint`);
    if (origin !== log)
      throw new UntrustedCheckpointError(`it names the log ${log}, and its checkpoint is of ${origin}`);
    return { checkpoint, signers, isKeyKnown: known.keys.length > 0, cosignatures };
  } catch (error) {
    throw error instanceof UntrustedCheckpointError
      ? error
      : new UntrustedCheckpointError(`its checkpoint is invalid: ${(error as Error).message}`, {
          cause: error,
        });
  }
}
