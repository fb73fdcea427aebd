import type { Scope } from '#server/read/scope.ts';

/**
 * Costs of the operator: what upstreams bill. Administrators and auditors read them beside the charge;
 * members and keys read the charge only. Pure.
 */

/** Whether a reader may see them: one who reads all accounts. */
export const seesUpstreamCost = ({ account }: Pick<Scope, 'account'>): boolean => account === null;

const OF_OPERATOR = ['upstream_cost_nanousd', 'stated_cost_nanousd'];

/** Whether an event or a frame may have such costs, of the call or of its attempts. */
export const hasUpstreamCost = (event: object): boolean =>
  'attempts' in event || OF_OPERATOR.some((name) => name in event);

/** The event or frame without them. */
export function withoutUpstreamCost<T extends object>(event: T): T {
  if (!hasUpstreamCost(event)) return event;
  const shown = Object.entries(event).filter(([name]) => !OF_OPERATOR.includes(name));
  return Object.fromEntries(
    shown.map(([name, value]) => [name, name === 'attempts' ? withoutCosts(value as object[]) : value]),
  ) as T;
}

const withoutCosts = (attempts: readonly object[]): object[] =>
  attempts.map((attempt) =>
    Object.fromEntries(Object.entries(attempt).filter(([name]) => !name.endsWith('cost_nanousd'))),
  );
