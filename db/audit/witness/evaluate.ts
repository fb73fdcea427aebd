import { type Checkpoint, openCheckpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import {
  formatNote,
  type Note,
  NoteError,
  parseNote,
  type Signer,
  signText,
  type Verifier,
} from '#db/tlog/note.ts';
import { isConsistent } from '#db/tlog/proof.ts';

/**
 * How a witness evaluates the newest checkpoint of a log. A cosignature states that the log is append-only
 * since the last checkpoint that this witness cosigned, and nothing else. Pure.
 */

/** Reasons for which a witness stops signing until an operator intervenes. */
export const ALARMS = {
  another_log:
    'the log has another origin: it is another log, or another epoch of this one after an older backup ' +
    'was restored',
  unknown_key: 'the checkpoint is not signed by a key of the log that this witness was given',
  shorter:
    'the log is smaller than the checkpoint that this witness cosigned, and proves no consistency with it',
  forked: 'the log has the same size as before and another root: it was forked',
  inconsistent: 'the log is not consistent with the checkpoint that this witness cosigned',
  rolled_back: "this witness's own state is older than its last cosignature: it was restored from a backup",
} as const;
export type AlarmKind = keyof typeof ALARMS;

export type Evaluation =
  | { kind: 'checkpoint_not_found'; why: string }
  | { kind: 'alarm'; alarm: AlarmKind }
  /** The checkpoint that is already known. */
  | { kind: 'same'; isCosigned: boolean; unknownKeys: string[] }
  /** An older checkpoint, as a cache may serve it; valid only if the known one is consistent with it. */
  | { kind: 'older'; checkpoint: Checkpoint }
  /** To be cosigned if it is consistent with the known one. */
  | { kind: 'newer'; checkpoint: Checkpoint; note: Note; unknownKeys: string[] };

/**
 * Evaluates the checkpoint that a log serves as its newest.
 * @param known the checkpoint that this witness cosigned last; null if none.
 * @param keys of the log, as configured at the witness.
 */
export function evaluateCheckpoint(
  shown: string,
  known: Checkpoint | null,
  keys: readonly Verifier[],
  own: Verifier,
): Evaluation {
  let checkpoint: Checkpoint;
  try {
    checkpoint = parseCheckpoint(parseNote(shown).text);
  } catch (error) {
    return { kind: 'checkpoint_not_found', why: messageOf(error) };
  }
  const isNamed = keys.some(({ name }) => name === checkpoint.origin);
  if ((known !== null && known.origin !== checkpoint.origin) || !isNamed) return alarmOf('another_log');
  try {
    const { note, verified } = openCheckpoint(shown, [...keys, own]);
    const isCosigned = verified.some(({ verifier }) => verifier === own);
    const unknownKeys = note.signatures
      .filter(({ name, keyId }) => name === checkpoint.origin && !keys.some((key) => key.keyId === keyId))
      .map(({ name, keyId }) => `${name}+${keyId}`);
    if (isCosigned && checkpoint.size > (known?.size ?? -1)) return alarmOf('rolled_back');
    if (known === null || checkpoint.size > known.size)
      return { kind: 'newer', checkpoint, note, unknownKeys };
    if (checkpoint.size < known.size) return { kind: 'older', checkpoint };
    return checkpoint.root.equals(known.root) ? { kind: 'same', isCosigned, unknownKeys } : alarmOf('forked');
  } catch (error) {
    messageOf(error);
    return alarmOf('unknown_key');
  }
}

const alarmOf = (alarm: AlarmKind): Evaluation => ({ kind: 'alarm', alarm });

function messageOf(error: unknown): string {
  if (error instanceof NoteError) return error.message;
  throw error;
}

/** Whether a newer checkpoint is consistent with the known one; the first one that a witness sees is. */
export function continues(known: Checkpoint | null, newer: Checkpoint, proof: readonly Buffer[]): boolean {
  return known === null || isConsistent(known, newer, proof);
}

/** The note with the signatures of the log and this witness's cosignature, without any others. */
export function cosign(
  { text, signatures }: Note,
  keys: readonly Verifier[],
  own: Signer,
  nowMs: number,
): string {
  const ofLog = signatures.filter(({ name, keyId }) =>
    keys.some((key) => key.name === name && key.keyId === keyId),
  );
  return formatNote({ text, signatures: [...ofLog, signText(text, own, Math.floor(nowMs / 1_000))] });
}
