import { assertIncreasing } from '#db/assert-increasing.ts';

/**
 * The longest text of an event's row, in bytes: entry bundles (c2sp.org/tlog-tiles) state the length of an
 * entry in 16 bits.
 */
export const ENTRY_BYTES_MAX = 65_535;
/** The longest text of all columns but `body`: three names of up to 270 bytes, and numbers. */
export const OTHER_COLUMNS_BYTES_MAX = 2_048;

assertIncreasing(
  { OTHER_COLUMNS_BYTES_MAX, ENTRY_BYTES_MAX },
  'An entry must have room for its body beside its other columns.',
);
