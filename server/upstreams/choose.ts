import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Target } from '#server/upstreams/target.ts';

/** Dispatch: where a call goes next. Pure. */

export type Choice = { target: Target; line: UpstreamConnectionPool };

/**
 * One that answers more than so many times slower than the fastest of its order loses a part of its share.
 */
const SLOWER_MAX = 2;
const SHARE_MIN = 0.1;
const DIGITS_APART = 100_003;

/**
 * Chooses among the targets of the lowest order that has one to offer: by weight, less where one has
 * been much slower than the others, and of its credentials one of those with the fewest calls. Where all
 * left are ejected, the one that comes back first: a refusal of ours would help nobody.
 * @param tried lines that this call has been at, which are not chosen again.
 * @param avoided upstreams that have failed it in a way that another credential won't mend: none of theirs is
 * chosen.
 * @param random from 0 to 1.
 */
export function choose(
  targets: readonly Target[],
  tried: ReadonlySet<UpstreamConnectionPool>,
  avoided: ReadonlySet<string>,
  nowMs: number,
  random: number,
): Choice | null {
  // Most models go to one place, whatever its health, and every call asks.
  const only = theOnlyChoice(targets);
  if (only) return tried.has(only.line) || avoided.has(only.target.upstream.name) ? null : only;
  const left = targets.flatMap((target) =>
    avoided.has(target.upstream.name)
      ? []
      : target.upstream.lines.filter((line) => !tried.has(line)).map((line) => ({ target, line })),
  );
  const open = left.filter(
    ({ target, line }) => target.upstream.health.isOpen(nowMs) && line.health.isOpen(nowMs),
  );
  if (open.length > 0) return pick(open, random);
  return left.toSorted((one, other) => backAtMs(one) - backAtMs(other))[0] ?? null;
}

function theOnlyChoice(targets: readonly Target[]): Choice | null {
  const [target] = targets;
  const [line] = target?.upstream.lines ?? [];
  return target && line && targets.length === 1 && target.upstream.lines.length === 1
    ? { target, line }
    : null;
}

const backAtMs = ({ target, line }: Choice): number =>
  Math.max(target.upstream.health.untilMs, line.health.untilMs);

function pick(choices: readonly Choice[], random: number): Choice {
  const order = Math.min(...choices.map(({ target }) => target.order));
  const lines = new Map<Target, UpstreamConnectionPool[]>();
  for (const { target, line } of choices) {
    if (target.order !== order) continue;
    const best = lines.get(target) ?? [];
    const running = best[0]?.health.running ?? Infinity;
    if (line.health.running === running) best.push(line);
    else if (line.health.running < running) lines.set(target, [line]);
  }
  const target = byShare([...lines.keys()], random);
  const idle = lines.get(target) as UpstreamConnectionPool[];
  // The later digits of the same number, which say nothing of the target that its first ones chose.
  return {
    target,
    line: idle[Math.floor(((random * DIGITS_APART) % 1) * idle.length)] as UpstreamConnectionPool,
  };
}

function byShare(targets: readonly Target[], random: number): Target {
  const fastest = Math.min(...targets.map(({ latencyMs }) => latencyMs ?? Infinity));
  const shares = targets.map(
    ({ weight, latencyMs }) => weight * (latencyMs === null ? 1 : slowed(latencyMs, fastest)),
  );
  let left = random * shares.reduce((sum, share) => sum + share, 0);
  for (const [index, share] of shares.entries()) {
    left -= share;
    if (left < 0) return targets[index] as Target;
  }
  // All have the weight 0: they are there for when others have failed.
  return targets.at(-1) as Target;
}

const slowed = (latencyMs: number, fastestMs: number): number =>
  Math.min(1, Math.max(SHARE_MIN, (SLOWER_MAX * fastestMs) / Math.max(latencyMs, 1)));
