import type { BillLine } from '#db/reconcile/bill/line.ts';

/** A line with the cost of a part of all models together, such as Anthropic's of web searches. */
const isShared = ({ kind, requestId, model, part, quantity, cost }: BillLine): boolean =>
  kind === 'usage' &&
  requestId === null &&
  model === null &&
  part !== null &&
  part !== 'requests' &&
  quantity === null &&
  cost !== null;

const keyOf = ({ from, to, part }: BillLine): string => `${from.getTime()} ${to.getTime()} ${part}`;

/**
 * Divides costs that a bill states without a model among the models whose usage of the part it states in the
 * same interval, by their quantities: the sum of the shares is the cost. Other lines stay as they are. Pure.
 */
export function allocateCosts(lines: readonly BillLine[]): readonly BillLine[] {
  if (!lines.some(isShared)) return lines;
  const users = Map.groupBy(
    lines.filter(({ model, quantity, cost }) => model !== null && (quantity ?? 0n) > 0n && cost === null),
    keyOf,
  );
  return lines.flatMap((line) => {
    const used = isShared(line) ? (users.get(keyOf(line)) ?? []) : [];
    const whole = used.reduce((sum, { quantity }) => sum + (quantity ?? 0n), 0n);
    if (whole === 0n) return [line];
    const cost = line.cost ?? 0n;
    let rest = cost;
    return used.map(({ model, serviceTier, quantity }, index) => {
      const share = index === used.length - 1 ? rest : (cost * (quantity ?? 0n)) / whole;
      rest -= share;
      return { ...line, model, serviceTier, cost: share };
    });
  });
}
