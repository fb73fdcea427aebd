import type { Target } from '#db/events/upstream-events.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';

/** Where the calls of a model go, in plain English. Pure. */

/** An upstream, and what it calls the model where that is something else. */
export const targetName = (
  model: string,
  { upstream, model: own }: Pick<Target, 'upstream' | 'model'>,
): string => (own === undefined || own === '' || own === model ? upstream : `${upstream} (as ${own})`);

/** Targets by the turn in which they are tried. */
export const turnsOf = (targets: readonly Target[]): Target[][] =>
  [...Map.groupBy(targets, ({ order }) => order)]
    .toSorted(([one], [other]) => one - other)
    .map(([, turn]) => turn);

/**
 * What share of the calls of its turn a target gets, as people write it; null where it only stands in for
 * others.
 */
export function shareOf(target: Target, turn: readonly Target[]): string | null {
  const sum = turn.reduce((total, { weight }) => total + weight, 0);
  if (turn.length === 1 || (sum === 0 && target === turn.at(-1))) return '100 %';
  if (target.weight === 0) return null;
  const percent = (100 * target.weight) / sum;
  if (percent < 1) return 'under 1 %';
  return percent > 99 && percent < 100 ? 'over 99 %' : `${Math.round(percent)} %`;
}

/** Sentences that say which upstream a call goes to first, and which take over. */
export function tellTargets(
  model: string,
  targets: readonly Target[],
  paused: ReadonlySet<string> = new Set(),
): string[] {
  const told: string[] = [];
  let before = 0;
  for (const turn of turnsOf(targets)) {
    const name = (target: Target): string => targetName(model, target);
    const sharing = turn.filter((target) => shareOf(target, turn) !== null);
    const standIns = turn.filter((target) => shareOf(target, turn) === null);
    const failed =
      before === 0
        ? ''
        : `When ${before === 1 ? 'it has' : before === 2 ? 'both have' : 'all of them have'} failed, `;
    if (sharing.length === 1 && sharing[0])
      told.push(
        before === 0 ? `Every call goes to ${name(sharing[0])}.` : `${failed}${name(sharing[0])} takes over.`,
      );
    else {
      const [first, ...rest] = sharing.map((target) => ({ share: shareOf(target, turn), to: name(target) }));
      const others = rest.map(({ share, to }) => `${share} to ${to}`).join(', ');
      told.push(
        `${failed}${first?.share} of ${before === 0 ? 'calls' : 'what is left'} go to ${first?.to}, ${others}; where one fails, ${sharing.length === 2 ? 'the other' : 'another of them'} is tried.`,
      );
    }
    if (standIns.length > 0)
      told.push(
        `${listed(standIns.map(name))} ${standIns.length === 1 ? 'is' : 'are'} tried only when ${sharing.length === 1 ? 'that one fails' : 'they fail'}.`,
      );
    before += turn.length;
  }
  const resting = [...new Set(targets.map(({ upstream }) => upstream))].filter((upstream) =>
    paused.has(upstream),
  );
  if (resting.length > 0)
    told.push(
      `${listed(resting)} ${resting.length === 1 ? 'is' : 'are'} paused, and left out until resumed.`,
    );
  return told;
}

export const listed = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

/**
 * The upstream that serves a name by listing it: an exact name goes before any pattern, and then order
 * decides.
 */
export function listedBy(model: string, upstreams: readonly UpstreamRow[]): string | null {
  const has = (fits: (pattern: string) => boolean): string | undefined =>
    upstreams.find(({ terms }) => terms.models.some(fits))?.name;
  return (
    has((pattern) => pattern === model) ??
    has((pattern) => pattern.includes('*') && fitsPattern(pattern, model)) ??
    null
  );
}

const fitsPattern = (pattern: string, model: string): boolean =>
  new RegExp(
    `^${pattern
      .split('*')
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
      .join('.*')}$`,
    's',
  ).test(model);
