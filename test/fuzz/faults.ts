import { playPairFaults } from '../support/protocols/pair-faults.ts';
import { playRouteFaults } from '../media/play-faults.ts';

/**
 * Every fault of an upstream of each protocol, for clients of each protocol, and on each further route that
 * streams: without chance.
 */
export async function run(): Promise<{ calls: number; violations: string[] }> {
  const [pairs, routes] = [await playPairFaults(1, 'embedded'), await playRouteFaults(1, 'embedded')];
  return { calls: pairs.calls + routes.calls, violations: [...pairs.violations, ...routes.violations] };
}
