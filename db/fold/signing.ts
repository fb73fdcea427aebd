import type { SigningEvent } from '#db/events/subjects.ts';
import type { Stored } from '#db/fold/stored.ts';

/** Who signs the log's checkpoints, and which of its histories this is. */
export type Signing = {
  /** 1, plus one for each time that the log was deliberately continued from an older backup. */
  epoch: number;
  /** The lines of the keys that have signed, the newest last, each from the position of its event on. */
  keys: readonly { verifierKey: string; position: number }[];
  /** Abandoned histories, with the last published checkpoint of each. */
  lost: readonly { epoch: number; size: number; root: string; position: number }[];
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

export const SIGNING_FIRST: Signing = { epoch: 1, keys: [], lost: [], version: 0 };

/** The same after the next event of the log's own stream. */
export function evolveSigning(signing: Signing, stored: Stored<SigningEvent>): Signing {
  return { ...signing, ...changeBy(signing, stored), version: stored.version };
}

function changeBy({ keys, lost }: Signing, { event, position }: Stored<SigningEvent>): Partial<Signing> {
  switch (event.type) {
    case 'log.signer_changed':
      return { keys: [...keys, { verifierKey: event.verifier_key, position }] };
    case 'log.epoch_started': {
      const given = { epoch: event.epoch - 1, size: event.lost_size, root: event.lost_root, position };
      return { epoch: event.epoch, lost: [...lost, given] };
    }
  }
}

/**
 * The origin of a log: the first line of its checkpoints. Each epoch has another one, because two histories
 * must never be signed under one origin.
 */
export function originOf(logId: string, epoch: number): string {
  return epoch === 1 ? `daybook/${logId}` : `daybook/${logId}/${epoch}`;
}
