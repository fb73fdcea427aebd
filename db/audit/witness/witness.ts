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
 * What a witness makes of a log's newest checkpoint. It signs that the log has only grown since the
 * last one that it signed, and nothing else, ever. Pure.
 */

/** Why a witness signs no more until a person has looked. */
export const ALARMS = {
  another_log:
    'the log there has another name: it is another log, or another epoch of this one after an older backup was restored',
  unknown_key: 'no key of the log that this witness was given has signed its checkpoint',
  shorter:
    'the log is shorter than what this witness has signed, and proves no more that it was a part of it',
  forked: 'the log has the same size as before, and is another',
  inconsistent: 'the log does not begin with what this witness has signed',
  rolled_back: "this witness's own state is older than what it has signed: it was restored from a backup",
} as const;
export type AlarmKind = keyof typeof ALARMS;

export type Judgement =
  | { kind: 'no_checkpoint'; why: string }
  | { kind: 'alarm'; alarm: AlarmKind }
  /** Nothing new. */
  | { kind: 'same'; isCosigned: boolean; strangers: string[] }
  /** It was served from where it is older; good only if the one that is known continues it. */
  | { kind: 'older'; checkpoint: Checkpoint }
  /** To be signed, if it continues the one that is known. */
  | { kind: 'newer'; checkpoint: Checkpoint; note: Note; strangers: string[] };

/**
 * Judges what a log shows as its newest checkpoint.
 * @param known what this witness has signed last; null: nothing yet.
 * @param keys of the log, as the witness was given them.
 */
export function judge(
  shown: string,
  known: Checkpoint | null,
  keys: readonly Verifier[],
  own: Verifier,
): Judgement {
  let checkpoint: Checkpoint;
  try {
    checkpoint = parseCheckpoint(parseNote(shown).text);
  } catch (error) {
    return { kind: 'no_checkpoint', why: wordsOf(error) };
  }
  const isNamed = keys.some(({ name }) => name === checkpoint.origin);
  if ((known !== null && known.origin !== checkpoint.origin) || !isNamed) return alarmOf('another_log');
  try {
    const { note, verified } = openCheckpoint(shown, [...keys, own]);
    const isCosigned = verified.some(({ verifier }) => verifier === own);
    const strangers = note.signatures
      .filter(({ name, keyId }) => name === checkpoint.origin && !keys.some((key) => key.keyId === keyId))
      .map(({ name, keyId }) => `${name}+${keyId}`);
    if (isCosigned && checkpoint.size > (known?.size ?? -1)) return alarmOf('rolled_back');
    if (known === null || checkpoint.size > known.size) return { kind: 'newer', checkpoint, note, strangers };
    if (checkpoint.size < known.size) return { kind: 'older', checkpoint };
    return checkpoint.root.equals(known.root) ? { kind: 'same', isCosigned, strangers } : alarmOf('forked');
  } catch (error) {
    wordsOf(error);
    return alarmOf('unknown_key');
  }
}

const alarmOf = (alarm: AlarmKind): Judgement => ({ kind: 'alarm', alarm });

function wordsOf(error: unknown): string {
  if (error instanceof NoteError) return error.message;
  throw error;
}

/** Whether a newer checkpoint continues the one that is known; the first one that a witness sees does. */
export function continues(known: Checkpoint | null, newer: Checkpoint, proof: readonly Buffer[]): boolean {
  return known === null || isConsistent(known, newer, proof);
}

/** The note with this witness's signature below those of the log, and of nobody else. */
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
