/** Values of a report of usage, whatever a provider sends in their places. Pure. */

export function asRecord(value: unknown): Record<string, unknown> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

/** A count as a whole number; 0 also without one. */
export function count(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : 0;
}

/** A count within an object of details; 0 also without such an object. */
export function detail(details: unknown, name: string): number {
  return typeof details === 'object' && details !== null
    ? count((details as Record<string, unknown>)[name])
    : 0;
}
