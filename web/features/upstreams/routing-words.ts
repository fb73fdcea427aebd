import type { Target } from '#db/events/upstream-events.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { showPercent } from '../../lib/format/show.ts';

/** Descriptions of model routing. Pure. */

/** The upstream's name, with its model name if that differs. */
export const targetName = (
  model: string,
  { upstream, model: own }: Pick<Target, 'upstream' | 'model'>,
): string => (own === undefined || own === '' || own === model ? upstream : `${upstream} (as ${own})`);

/** Targets grouped by priority. */
export const prioritiesOf = (targets: readonly Target[]): Target[][] =>
  [...Map.groupBy(targets, ({ order }) => order)]
    .toSorted(([one], [other]) => one - other)
    .map(([, group]) => group);

/** The share of requests that a target receives within its priority; null for a standby. */
export function shareOf(target: Target, group: readonly Target[]): string | null {
  const sum = group.reduce((total, { weight }) => total + weight, 0);
  if (group.length === 1 || (sum === 0 && target === group.at(-1))) return showPercent(1);
  if (target.weight === 0) return null;
  const percent = (100 * target.weight) / sum;
  if (percent < 1) return `under ${showPercent(0.01, 0)}`;
  return percent > 99 && percent < 100 ? `over ${showPercent(0.99)}` : showPercent(percent / 100, 0);
}

/** Sentences that describe primary targets and fallbacks. */
export function describeTargets(
  model: string,
  targets: readonly Target[],
  paused: ReadonlySet<string> = new Set(),
): string[] {
  const sentences: string[] = [];
  let before = 0;
  for (const group of prioritiesOf(targets)) {
    const name = (target: Target): string => targetName(model, target);
    const sharing = group.filter((target) => shareOf(target, group) !== null);
    const standbys = group.filter((target) => shareOf(target, group) === null);
    const failed =
      before === 0 ? '' : `If ${before === 1 ? 'it fails' : before === 2 ? 'both fail' : 'all fail'}, `;
    if (sharing.length === 1 && sharing[0])
      sentences.push(
        before === 0
          ? `All requests go to ${name(sharing[0])}.`
          : `${failed}requests go to ${name(sharing[0])}.`,
      );
    else {
      const [first, ...rest] = sharing.map((target) => ({ share: shareOf(target, group), to: name(target) }));
      const next = sharing.length === 2 ? 'the other' : 'another';
      const others = rest.map(({ share, to }) => `${share} to ${to}`).join(', ');
      sentences.push(
        `${failed}${first?.share} of requests go to ${first?.to}, ${others}. If one fails, ${next} is used.`,
      );
    }
    if (standbys.length > 0)
      sentences.push(
        [
          listed(standbys.map(name)),
          standbys.length === 1 ? 'is' : 'are',
          'used only if',
          sharing.length === 1 ? 'it fails.' : 'they fail.',
        ].join(' '),
      );
    before += group.length;
  }
  const pausedTargets = [...new Set(targets.map(({ upstream }) => upstream))].filter((upstream) =>
    paused.has(upstream),
  );
  if (pausedTargets.length > 0)
    sentences.push(
      `${listed(pausedTargets)} ${pausedTargets.length === 1 ? 'is' : 'are'} paused and skipped.`,
    );
  return sentences;
}

export const listed = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

/** The upstream that lists a model: exact names first, then patterns in list order. */
export function listedBy(model: string, upstreams: readonly UpstreamRow[]): string | null {
  const has = (matches: (pattern: string) => boolean): string | undefined =>
    upstreams.find(({ terms }) => terms.models.some(matches))?.name;
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
