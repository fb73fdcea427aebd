/**
 * The way back from what is stored: the name that each code stands for. A newer version's code has none.
 * Pure.
 */
export function namesByCode<T extends string>(codes: Readonly<Record<T, number>>): ReadonlyMap<number, T> {
  return new Map(Object.entries(codes).map(([name, code]) => [code as number, name as T]));
}
