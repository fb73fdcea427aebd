import { PlanName } from '#db/events/parts.ts';
import type { EventOf, PlanTerms } from '#db/events/events.ts';
import type { Plan } from '#db/fold/plan.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { sameTerms } from '#server/decide/terms.ts';

/** Means "no plan" on the command line, so no plan can have this name. */
export const NO_PLAN = 'none';

/** Whether the usage of the current windows is kept, or reset to zero. */
export type WindowsChoice = 'keep' | 'reset';

/**
 * Creates a plan, or replaces its terms; null if nothing changes. A retired plan stays retired, because
 * accounts that still have it must not become active as a side effect.
 */
export function definePlan(
  plan: Plan | undefined,
  command: { name: string; terms: PlanTerms; windows: WindowsChoice; actor: string },
): EventOf<'plan.defined' | 'plan.changed'> | null {
  const { name, terms, windows, actor } = command;
  if (!plan) return { type: 'plan.defined', plan: name, terms, actor };
  if (plan.state === 'retired')
    throw new DecisionError(
      'not_allowed',
      `Plan "${name}" is retired permanently. Define a plan with another name.`,
    );
  if (windows === 'keep' && sameTerms(plan.terms, terms)) return null;
  return { type: 'plan.changed', plan: name, terms, windows, actor };
}

/** Retires a plan permanently: calls of its accounts are rejected. Null if it is retired already. */
export function retirePlan(plan: Plan, actor: string): EventOf<'plan.retired'> | null {
  return plan.state === 'retired' ? null : { type: 'plan.retired', plan: plan.name, actor };
}

/** @throws {DecisionError} when the name is not valid for a plan. */
export function checkPlanName(name: string): string {
  if (PlanName.safeParse(name).success && name !== NO_PLAN) return name;
  throw new DecisionError(
    'invalid',
    'A plan name has 1 to 64 of a-z, 0-9, ".", "_" and "-", begins with a letter or a digit, ' +
      `and is not "${NO_PLAN}".`,
  );
}

/** The plan that a command names. */
export function requirePlan<Found>(plan: Found | undefined, name: string): Found {
  if (!plan) throw new DecisionError('not_found', `There is no plan named "${name}".`);
  return plan;
}
