import type { ControlEvent } from '#db/events/events.ts';

/** Who signs the log's checkpoints, and which of its histories this is. */
export type Signing = {
  /** 1, and one more each time that the log was taken up from an older backup on purpose. */
  epoch: number;
  /** The lines of the keys that have signed, the newest last, each from the position of its event on. */
  keys: readonly { verifierKey: string; position: number }[];
  /** Histories that were given up: what had been published of each. */
  lost: readonly { epoch: number; size: number; root: string; position: number }[];
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

export const SIGNING_FIRST: Signing = { epoch: 1, keys: [], lost: [], version: 0 };

/**
 * The same after one more event; events of other subjects change nothing. @param position where it stands in
 * the log.
 */
export function evolveSigning(signing: Signing, event: ControlEvent, position: number): Signing {
  switch (event.type) {
    case 'log.signer_changed':
      return {
        ...signing,
        keys: [...signing.keys, { verifierKey: event.verifier_key, position }],
        version: signing.version + 1,
      };
    case 'log.epoch_started':
      return {
        ...signing,
        epoch: event.epoch,
        lost: [
          ...signing.lost,
          { epoch: event.epoch - 1, size: event.lost_size, root: event.lost_root, position },
        ],
        version: signing.version + 1,
      };
    default:
      return signing;
  }
}

/**
 * The name of a log, which stands at the head of its checkpoints. Each epoch has another: two
 * histories under one name are what nobody may ever sign.
 */
export function originOf(logId: string, epoch: number): string {
  return epoch === 1 ? `daybook/${logId}` : `daybook/${logId}/${epoch}`;
}
