import { hash } from 'node:crypto';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Target } from '#server/upstreams/target.ts';

/** Dispatch: where a call goes next. Pure. */

export type Choice = { target: Target; pool: UpstreamConnectionPool };

/**
 * A target that answers more than this many times slower than the fastest of its order loses a part of its
 * share.
 */
const SLOWER_MAX = 2;
const SHARE_MIN = 0.1;
const DIGITS_APART = 100_003;
/** In place of the weight 0, of a target that is used when the others have failed. */
const WEIGHT_LEAST = 1e-9;

/**
 * Chooses among the targets of the lowest order whose circuits allow a call: by weight, less for a target
 * that has been much slower than the others, and among its credentials one with the fewest running calls.
 * Where every circuit left is open, the one that closes first: rejecting the call would help no client.
 * @param tried pools that this call was sent to before, which are not chosen again.
 * @param avoided upstreams that failed this call in a way that another credential does not change.
 * @param draw a random number from 0 to 1; or a name, for which every server makes the same choice.
 */
export function choose(
  targets: readonly Target[],
  tried: readonly UpstreamConnectionPool[],
  avoided: readonly string[],
  nowMs: number,
  draw: number | string,
): Choice | null {
  // Most models have one target, whatever the state of its circuit, and this runs for every call.
  const only = onlyChoice(targets);
  if (only) return tried.includes(only.pool) || avoided.includes(only.target.upstream.name) ? null : only;
  const left = targets.flatMap((target) =>
    avoided.includes(target.upstream.name)
      ? []
      : target.upstream.pools.filter((pool) => !tried.includes(pool)).map((pool) => ({ target, pool })),
  );
  const allowed = left.filter(
    ({ target, pool }) => target.upstream.circuit.allows(nowMs) && pool.circuit.allows(nowMs),
  );
  if (allowed.length > 0) return typeof draw === 'number' ? pick(allowed, draw) : pickByName(allowed, draw);
  return left.toSorted((one, other) => backAtMs(one) - backAtMs(other))[0] ?? null;
}

function onlyChoice(targets: readonly Target[]): Choice | null {
  const [target] = targets;
  const [pool] = target?.upstream.pools ?? [];
  return target && pool && targets.length === 1 && target.upstream.pools.length === 1
    ? { target, pool }
    : null;
}

const backAtMs = ({ target, pool }: Choice): number =>
  Math.max(target.upstream.circuit.openUntilMs, pool.circuit.openUntilMs);

function pick(choices: readonly Choice[], random: number): Choice {
  const order = Math.min(...choices.map(({ target }) => target.order));
  const pools = new Map<Target, UpstreamConnectionPool[]>();
  for (const { target, pool } of choices) {
    if (target.order !== order) continue;
    const best = pools.get(target) ?? [];
    const running = best[0]?.circuit.running ?? Infinity;
    if (pool.circuit.running === running) best.push(pool);
    else if (pool.circuit.running < running) pools.set(target, [pool]);
  }
  const target = byShare([...pools.keys()], random);
  const idle = pools.get(target) as UpstreamConnectionPool[];
  // The later digits of the same random number are independent of the first ones, which chose the target.
  return {
    target,
    pool: idle[Math.floor(((random * DIGITS_APART) % 1) * idle.length)] as UpstreamConnectionPool,
  };
}

/**
 * The choice of a name by weighted rendezvous hashing: over all names each target has its share, and a name
 * keeps its choice when others are added or removed. Neither latency nor running calls count.
 */
function pickByName(choices: readonly Choice[], name: string): Choice {
  const order = Math.min(...choices.map(({ target }) => target.order));
  let [best, least] = [choices[0] as Choice, Infinity];
  for (const choice of choices) {
    const { upstream, weight, order: own } = choice.target;
    if (own !== order) continue;
    const hashed = hash('sha256', `${name} ${upstream.name} ${choice.pool.credential ?? ''}`, 'buffer');
    const share = Math.max(weight, WEIGHT_LEAST) / upstream.pools.length;
    const score = -Math.log((hashed.readUInt32BE() + 1) / (2 ** 32 + 1)) / share;
    if (score < least) [best, least] = [choice, score];
  }
  return best;
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
  // All have the weight 0: they are used when targets of another order have failed.
  return targets.at(-1) as Target;
}

const slowed = (latencyMs: number, fastestMs: number): number =>
  Math.min(1, Math.max(SHARE_MIN, (SLOWER_MAX * fastestMs) / Math.max(latencyMs, 1)));
