import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of recording when the secrets of keys are used, each with its reason. */

/** Secrets of keys in rotation that are noted at once, about a megabyte. */
export const SECRETS_NOTED_MAX = 10_000;
/** How often a secret's use is recorded while it continues, and how soon the first one is. */
export const SECRET_USE_REPORT_MS = 60_000;
export const SECRET_USE_LOOK_MS = 1_000;

assertIncreasing(
  { SECRET_USE_LOOK_MS, SECRET_USE_REPORT_MS },
  'A use must be looked for more often than it is recorded.',
);
