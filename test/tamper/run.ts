import type { Random } from '../chaos/random.ts';
import { verifyUnchanged, type Outcome, tryAttack } from './judge.ts';
import type { Attacker } from './trial.ts';
import type { World } from './world.ts';

/**
 * Runs attacks one by one, each on the unchanged log.
 * @throws {Error} when the unchanged log has a finding before the first or after the last.
 */
export async function runTrials(
  world: World,
  random: Random,
  trials: readonly { attacker: Attacker; count: number }[],
): Promise<Outcome[]> {
  await requireUnchanged(world);
  const outcomes: Outcome[] = [];
  for (const { attacker, count } of trials) {
    for (let each = 0; each < count; each++) outcomes.push(await tryAttack(world, random, attacker));
  }
  await requireUnchanged(world);
  return outcomes;
}

async function requireUnchanged(world: World): Promise<void> {
  const findings = await verifyUnchanged(world);
  if (findings.length > 0) throw new Error(`the unchanged log has a finding: ${JSON.stringify(findings[0])}`);
}

/**
 * How many attacks of a kind were made, detected, located exactly, and reported in the right table; with the
 * publish directory, and with one older checkpoint alone.
 */
export type Tally = {
  kind: string;
  attempted: number;
  found: number;
  exact: number;
  named: number;
  found_by_older: number;
  within_older: number;
};

/**
 * Summarizes outcomes. Attacks that change nothing signed need not be detected, and have kinds of their own.
 */
export function tally(outcomes: readonly Outcome[]): { kinds: Tally[]; missed: Outcome[] } {
  const kinds = [...new Set(outcomes.map(({ kind }) => kind))].toSorted().map((kind): Tally => {
    const own = outcomes.filter((outcome) => outcome.kind === kind);
    const count = (is: (outcome: Outcome) => boolean): number => own.filter(is).length;
    return {
      kind,
      attempted: own.length,
      found: count(({ published }) => published.isFound),
      exact: count(({ published }) => published.isPlaced),
      named: count(({ published }) => published.isNamed),
      found_by_older: count(({ older }) => older.isFound),
      within_older: count(({ older }) => older.isPlaced),
    };
  });
  return {
    kinds,
    missed: outcomes.filter(
      ({ expected, published, older }) => expected !== null && !(published.isPlaced && older.isPlaced),
    ),
  };
}
