import { ALARMS, type AlarmKind, continues, cosign, evaluateCheckpoint } from '#db/audit/witness/evaluate.ts';
import { LogUnavailableError, type LogClient } from '#db/audit/witness/log-client.ts';
import { type Alarm, parseCheckpointNote, type WitnessState } from '#db/audit/witness/state.ts';
import { type Checkpoint } from '#db/tlog/checkpoint.ts';
import type { Verifier } from '#db/tlog/note.ts';
import { STALE_MS } from '#db/audit/bounds.ts';

export type Witness = { state: WitnessState; log: LogClient; keys: readonly Verifier[] };

/** The outcome of one poll. */
export type PollResult = {
  /** The size of the newest checkpoint that this witness has cosigned. */
  size: number;
  /** Whether this poll cosigned a new checkpoint. */
  isNew: boolean;
  alarm: Alarm | null;
  /** Problems that prove no misbehavior of the log, one line each. */
  warnings: string[];
};

/**
 * Fetches the newest checkpoint once, and cosigns it if it is consistent with the one cosigned before. The
 * cosignature is on disk before it is submitted.
 * @throws {LogUnavailableError} when the log serves no checkpoint.
 */
export async function poll({ state, log, keys }: Witness): Promise<PollResult> {
  const before = state.checkpoint();
  const known = before === null ? null : parseCheckpointNote(before);
  const { note: shown, waitingMs } = await log.newestCheckpoint();
  const warnings =
    waitingMs > STALE_MS
      ? [
          `events have been waiting ${Math.round(waitingMs / 1_000)} s for a checkpoint. Is the worker ` +
            'running?',
        ]
      : [];
  const size = known?.size ?? 0;
  const raise = (kind: AlarmKind, proof: readonly Buffer[] | null = null): PollResult => ({
    size,
    isNew: false,
    warnings: warnings,
    alarm: createAlarm({ state, log }, kind, { known: before, shown, proof }),
  });
  const evaluation = evaluateCheckpoint(shown, known, keys, state.signer);
  switch (evaluation.kind) {
    case 'checkpoint_not_found':
      throw new LogUnavailableError(`${log.address} serves no checkpoint: ${evaluation.why}`);
    case 'alarm':
      return raise(evaluation.alarm);
    case 'older': {
      const proof = await log.consistencyProof(evaluation.checkpoint.size, size);
      if (proof === null || !continues(evaluation.checkpoint, known as Checkpoint, proof))
        return raise('shorter', proof);
      return {
        size,
        isNew: false,
        alarm: null,
        warnings: [
          ...warnings,
          `${log.address} serves an older checkpoint than before. Is there a cache in between?`,
        ],
      };
    }
    case 'same':
      if (!evaluation.isCosigned) await submit(log, before as string, warnings);
      return {
        size,
        isNew: false,
        alarm: null,
        warnings: [...warnings, ...unknownKeyWarnings(evaluation.unknownKeys)],
      };
    case 'newer': {
      const proof = await log.consistencyProof(size, evaluation.checkpoint.size);
      if (proof === null)
        throw new LogUnavailableError(
          `${log.address} has no consistency proof from ${size} to ${evaluation.checkpoint.size}`,
        );
      if (!continues(known, evaluation.checkpoint, proof)) return raise('inconsistent', proof);
      const cosigned = cosign(evaluation.note, keys, state.signer, Date.now());
      state.advance(cosigned);
      await submit(log, cosigned, warnings);
      return {
        size: evaluation.checkpoint.size,
        isNew: true,
        alarm: null,
        warnings: [...warnings, ...unknownKeyWarnings(evaluation.unknownKeys)],
      };
    }
  }
}

/** Submits a cosignature. If the log does not accept it, the next poll submits it again. */
async function submit(log: LogClient, cosigned: string, warnings: string[]): Promise<void> {
  try {
    await log.submitCosignature(cosigned);
  } catch (error) {
    if (!(error instanceof LogUnavailableError)) throw error;
    warnings.push(error.message);
  }
}

/**
 * A key of the log is never learned from the log's server. A signature covers only the text, so anyone on the
 * path can append another signature to a checkpoint.
 */
function unknownKeyWarnings(unknownKeys: readonly string[]): string[] {
  return unknownKeys.map(
    (key) =>
      `the log also signs with an unknown key (${key}). If its operator confirms that key, pass it as ` +
      'a second --key before the old one is dropped',
  );
}

/** Detects that this witness's own state was restored from a backup. @returns null when it was not. */
export function detectRollback(witness: Pick<Witness, 'state' | 'log'>): Alarm | null {
  const [kept, last] = [witness.state.checkpoint(), witness.state.lastInHistory()];
  if (last === null || (kept !== null && parseCheckpointNote(kept).size >= parseCheckpointNote(last).size))
    return null;
  return createAlarm(witness, 'rolled_back', { known: kept, shown: last, proof: null });
}

function createAlarm(
  { state, log }: Pick<Witness, 'state' | 'log'>,
  alarm: AlarmKind,
  evidence: { known: string | null; shown: string; proof: readonly Buffer[] | null },
): Alarm {
  const { known, shown, proof } = evidence;
  return {
    alarm,
    message: ALARMS[alarm],
    at: new Date().toISOString(),
    log: log.address,
    witness: state.signer.name,
    known,
    shown,
    proof: proof?.map((hash) => hash.toString('base64')) ?? null,
  };
}
