import { seal, unseal } from '#db/secrets/seal.ts';

/** How the addresses and secrets of alert destinations are stored. */

/**
 * The address of deliveries. URLs of Slack and Microsoft Teams are secrets themselves: they are all that a
 * sender needs. A webhook has a signing secret beside its URL.
 */
export type DestinationTarget =
  | { kind: 'webhook'; url: string; secret: string }
  | { kind: 'slack' | 'teams'; url: string }
  | { kind: 'email'; address: string };

const PURPOSE = 'daybook alert destination';

/** Seals a target for the destination with this id. */
export function sealTarget(pepper: Buffer, id: string, target: DestinationTarget): Buffer {
  return seal(pepper, PURPOSE, id, JSON.stringify(target));
}

/** @throws {Error} if it was sealed under another pepper or for another destination, or was modified. */
export function unsealTarget(pepper: Buffer, id: string, sealed: Buffer): DestinationTarget {
  return JSON.parse(unseal(pepper, PURPOSE, id, sealed)) as DestinationTarget;
}
