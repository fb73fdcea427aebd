import type { SigningEvent } from '#db/events/subjects.ts';
import type { Stored } from '#db/fold/stored.ts';

/** Who signs the log's checkpoints, and which of its histories this is. */
export type Signing = {
  /** 1, and one more each time that the log was taken up from an older backup on purpose. */
  epoch: number;
  /** The lines of the keys that have signed, the newest last, each from the position of its event on. */
  keys: readonly { verifierKey: string; position: number }[];
  /** Histories that were given up: what had been published of each. */
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
 * The name of a log, which stands at the head of its checkpoints. Each epoch has another: two
 * histories under one name are what nobody may ever sign.
 */
export function originOf(logId: string, epoch: number): string {
  return epoch === 1 ? `daybook/${logId}` : `daybook/${logId}/${epoch}`;
}
