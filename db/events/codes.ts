/**
 * A type's code says whether a reader that doesn't know the type may skip the event, so that two adjacent
 * releases can serve together: from here on it may. An event below may change what a call may do, so a reader
 * that can't apply it must not act on its subject any more. Smallint: 32,767 is the last code.
 */
export const SKIPPABLE_CODES_FROM = 1000;

/**
 * Maps stored codes back to their names. A code of a newer version has no name.
 * Pure.
 */
export function namesByCode<T extends string>(codes: Readonly<Record<T, number>>): ReadonlyMap<number, T> {
  return new Map(Object.entries(codes).map(([name, code]) => [code as number, name as T]));
}
