/**
 * Asserts, when a `bounds.ts` is loaded, a relation that the code relies on: each of the named values is
 * greater than the one before it. A violated relation therefore stops the process at its start.
 * @param bounds named in ascending order, as in `{ HEARTBEAT_MS, DEAD_AFTER_MS }`.
 * @param reason what would break otherwise, as a sentence.
 * @throws {RangeError} that names the two values and the reason.
 */
export function assertIncreasing(bounds: Readonly<Record<string, number>>, reason: string): void {
  const entries = Object.entries(bounds);
  for (const [index, [name, value]] of entries.entries()) {
    const [lowerName, lower] = entries[index - 1] ?? ['', -Infinity];
    // Written so that NaN, which compares with nothing, fails as well.
    if (value > lower) continue;
    throw new RangeError(
      `Bounds contradict each other: ${name} (${value}) must be greater than ` +
        `${lowerName} (${lower}). ${reason}`,
    );
  }
}
