/**
 * Marks are how the upstream tells the driver what it can't see: a sign followed by sixteen digits
 * of microseconds, inside the reply's own JSON. Both run on one machine and read one clock.
 */

/** Before the time at which this chunk was written. Stands once in each content chunk. */
export const SENT_SIGN = '@';

/** Before how long the upstream held the request, from its last byte to this reply's first. */
export const HELD_SIGN = '#';

export const MARK_DIGITS = 16;

export const SENT_MARK = SENT_SIGN + '0'.repeat(MARK_DIGITS);
export const HELD_MARK = HELD_SIGN + '0'.repeat(MARK_DIGITS);

const ZERO = 0x30;

/** Writes the digits at `at`, which is just behind the sign. */
export function writeMark(buffer: Buffer, at: number, us: number): void {
  let rest = us;
  for (let index = at + MARK_DIGITS - 1; index >= at; index--) {
    const tenth = Math.floor(rest / 10);
    buffer[index] = ZERO + (rest - tenth * 10);
    rest = tenth;
  }
}

/** Reads the digits at `at`, which is just behind the sign; all sixteen must be there. */
export function readMark(buffer: Buffer, at: number): number {
  let us = 0;
  for (let index = at; index < at + MARK_DIGITS; index++) us = us * 10 + ((buffer[index] as number) - ZERO);
  return us;
}
