/** How many times as often `npm run fuzz -- properties` tries each property. */
const FACTOR = Number(process.env['PROPERTY_RUNS_FACTOR'] ?? 1);

/** How often a property is tried: so often in the suite, and a multiple of it in its long form. */
export const runs = (short: number): { numRuns: number } => ({ numRuns: short * FACTOR });
