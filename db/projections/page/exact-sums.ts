/** Sums of integers that events have as text. Pure. */

/** The integer of a field. @throws {TypeError} where it is not a safe integer. */
export function integerOf(text: string): number {
  const value = Number(text);
  if (text === '' || !Number.isSafeInteger(value)) throw new TypeError('a field is no integer');
  return value;
}

/**
 * Adds to a sum.
 * @throws {RangeError} where the result is not exact: PostgreSQL, which has more digits, adds up the sums of
 * parts of the page.
 */
export function addExactly(sum: number, more: number): number {
  const result = sum + more;
  if (!Number.isSafeInteger(result)) throw new RangeError('a sum of the page is not exact');
  return result;
}
