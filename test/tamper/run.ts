import type { Random } from '../chaos/random.ts';
import { lookAtWhole, type Outcome, tryAttack } from './judge.ts';
import type { Attacker } from './trial.ts';
import type { World } from './world.ts';

/**
 * Tries attacks one after the other, each on the log as it was. @throws {Error} when anything is found before
 * the first or after the last.
 */
export async function runTrials(
  world: World,
  random: Random,
  trials: readonly { attacker: Attacker; count: number }[],
): Promise<Outcome[]> {
  await requireWhole(world);
  const outcomes: Outcome[] = [];
  for (const { attacker, count } of trials) {
    for (let each = 0; each < count; each++) outcomes.push(await tryAttack(world, random, attacker));
  }
  await requireWhole(world);
  return outcomes;
}

async function requireWhole(world: World): Promise<void> {
  const findings = await lookAtWhole(world);
  if (findings.length > 0)
    throw new Error(`something is found where nothing was done: ${JSON.stringify(findings[0])}`);
}

/**
 * How many of a kind were tried, found, placed, and laid to the right table; with what was published, and
 * with one older checkpoint alone.
 */
export type Tally = {
  kind: string;
  tried: number;
  found: number;
  exact: number;
  named: number;
  found_by_older: number;
  within_older: number;
};

/**
 * What all of it comes to. Of attacks that change nothing attested nothing has to be found, and they
 * are counted apart, under kinds of their own.
 */
export function tally(outcomes: readonly Outcome[]): { kinds: Tally[]; missed: Outcome[] } {
  const kinds = [...new Set(outcomes.map(({ kind }) => kind))].toSorted().map((kind): Tally => {
    const own = outcomes.filter((outcome) => outcome.kind === kind);
    const count = (is: (outcome: Outcome) => boolean): number => own.filter(is).length;
    return {
      kind,
      tried: own.length,
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
