/**
 * Maps stored codes back to their names. A code of a newer version has no name.
 * Pure.
 */
export function namesByCode<T extends string>(codes: Readonly<Record<T, number>>): ReadonlyMap<number, T> {
  return new Map(Object.entries(codes).map(([name, code]) => [code as number, name as T]));
}
