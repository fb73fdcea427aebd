import { z } from 'zod';
import { Control, Count } from '#db/events/parts.ts';

/**
 * What concerns the log as a whole: who signs its checkpoints, where its history was broken off, and who has
 * read it.
 */

/** A line as c2sp.org/signed-note has it: the log's name, the key's id and the public key. */
const VerifierKey = z.string().regex(/^[\x21-\x2a\x2c-\x7e]{1,200}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}$/);

/** From here on checkpoints carry this key's signature. An older key's may stand beside it for a while. */
export const LogSignerChanged = Control.extend({
  type: z.literal('log.signer_changed'),
  verifier_key: VerifierKey,
});

/**
 * The log continues from a backup although later events had been published: those events are deliberately
 * abandoned. From here on its checkpoints have another origin, so that the two histories are not confused.
 */
export const LogEpochStarted = Control.extend({
  type: z.literal('log.epoch_started'),
  /** The first one, which no event starts, is 1. */
  epoch: z.int().min(2),
  /** The newest checkpoint of the history that was given up: its size and its root, in hexadecimal. */
  lost_size: Count,
  lost_root: z.string().regex(/^[0-9a-f]{64}$/),
});

export const LOG_READINGS = [
  'events',
  'export',
  'verify',
  'replay',
  'diff',
  'statement',
  'trace',
  'backup',
] as const;
/** The log was read beyond the member's own data. */
export const LogRead = Control.extend({
  type: z.literal('log.read'),
  what: z.enum(LOG_READINGS),
  /** The positions that were asked for. */
  from_position: Count,
  to_position: Count,
});
