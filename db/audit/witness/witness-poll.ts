import { ALARMS, type AlarmKind, continues, cosign, judge } from '#db/audit/witness/witness.ts';
import { LogAwayError, type WitnessedLog } from '#db/audit/witness/witness-log.ts';
import { type Alarm, checkpointIn, type WitnessState } from '#db/audit/witness/witness-state.ts';
import { type Checkpoint } from '#db/tlog/checkpoint.ts';
import type { Verifier } from '#db/tlog/note.ts';

/**
 * The worker publishes every ten seconds; an event that waits this long waits for a worker that is not there.
 */
const STALE_MS = 60_000;

export type Witness = { state: WitnessState; log: WitnessedLog; keys: readonly Verifier[] };

/** What one look at the log came to. */
export type Looked = {
  /** Up to where this witness has signed. */
  size: number;
  /** Whether it signed something new. */
  isNew: boolean;
  alarm: Alarm | null;
  /** What is not as it should be, and is no lie: each a line for people. */
  complaints: string[];
};

/**
 * Looks at the log once, and signs its newest checkpoint where that continues the one before. What is
 * signed is on the disk before the log is told.
 * @throws {LogAwayError} when the log shows nothing to judge.
 */
export async function look({ state, log, keys }: Witness): Promise<Looked> {
  const before = state.checkpoint();
  const known = before === null ? null : checkpointIn(before);
  const { note: shown, waitingMs } = await log.newest();
  const complaints =
    waitingMs > STALE_MS
      ? [`events have waited for ${Math.round(waitingMs / 1_000)} s for a checkpoint: does a worker run?`]
      : [];
  const size = known?.size ?? 0;
  const alarmed = (alarm: AlarmKind, proof: readonly Buffer[] | null = null): Looked => ({
    size,
    isNew: false,
    complaints,
    alarm: alarmOf({ state, log }, alarm, { known: before, shown, proof }),
  });
  const judged = judge(shown, known, keys, state.signer);
  switch (judged.kind) {
    case 'no_checkpoint':
      throw new LogAwayError(`${log.address} shows no checkpoint: ${judged.why}`);
    case 'alarm':
      return alarmed(judged.alarm);
    case 'older': {
      const proof = await log.consistency(judged.checkpoint.size, size);
      if (proof === null || !continues(judged.checkpoint, known as Checkpoint, proof))
        return alarmed('shorter', proof);
      return {
        size,
        isNew: false,
        alarm: null,
        complaints: [
          ...complaints,
          `${log.address} shows a checkpoint that is older than one before: is there a cache in between?`,
        ],
      };
    }
    case 'same':
      if (!judged.isCosigned) await handIn(log, before as string, complaints);
      return {
        size,
        isNew: false,
        alarm: null,
        complaints: [...complaints, ...strangersIn(judged.strangers)],
      };
    case 'newer': {
      const proof = await log.consistency(size, judged.checkpoint.size);
      if (proof === null)
        throw new LogAwayError(`${log.address} has no proof from ${size} to ${judged.checkpoint.size}`);
      if (!continues(known, judged.checkpoint, proof)) return alarmed('inconsistent', proof);
      const cosigned = cosign(judged.note, keys, state.signer, Date.now());
      state.advance(cosigned);
      await handIn(log, cosigned, complaints);
      return {
        size: judged.checkpoint.size,
        isNew: true,
        alarm: null,
        complaints: [...complaints, ...strangersIn(judged.strangers)],
      };
    }
  }
}

/** What is not taken now is handed in again with the next look. */
async function handIn(log: WitnessedLog, cosigned: string, complaints: string[]): Promise<void> {
  try {
    await log.handIn(cosigned);
  } catch (error) {
    if (!(error instanceof LogAwayError)) throw error;
    complaints.push(error.message);
  }
}

/**
 * Another key of the log is never learned from the log's server, whatever stands beside its signature:
 * a signature covers the text alone, so anybody in between can put another one below it.
 */
function strangersIn(strangers: readonly string[]): string[] {
  return strangers.map(
    (key) =>
      `the log signs with another key too (${key}): where its operator confirms that, name it by a second --key before the old one goes`,
  );
}

/** That this witness's own state was put back, before anything is asked: null where it was not. */
export function rolledBack(witness: Pick<Witness, 'state' | 'log'>): Alarm | null {
  const [kept, last] = [witness.state.checkpoint(), witness.state.lastInHistory()];
  if (last === null || (kept !== null && checkpointIn(kept).size >= checkpointIn(last).size)) return null;
  return alarmOf(witness, 'rolled_back', { known: kept, shown: last, proof: null });
}

function alarmOf(
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
