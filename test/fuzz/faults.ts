import { playPairFaults } from '../support/protocols/pair-faults.ts';

/** Every fault of an upstream of each protocol, for clients of each protocol: without chance. */
export const run = (): Promise<{ calls: number; violations: string[] }> => playPairFaults(1, 'embedded');
