import type { ControlEvent, PlanTerms } from '#db/events/events.ts';

/** What the accounts on it may use. */
export type Plan = {
  name: string;
  terms: PlanTerms;
  state: 'active' | 'retired';
  /** The position of its newest event. */
  position: number;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/**
 * The plan after one more event of its own stream; events of other subjects change nothing.
 * @param position where the event stands in the log.
 */
export function evolvePlan(plan: Plan | undefined, event: ControlEvent, position: number): Plan | undefined {
  switch (event.type) {
    case 'plan.defined':
      return { name: event.plan, terms: event.terms, state: 'active', position, version: 1 };
    case 'plan.changed':
      return plan && { ...plan, terms: event.terms, position, version: plan.version + 1 };
    case 'plan.retired':
      return plan && { ...plan, state: 'retired', position, version: plan.version + 1 };
    default:
      return plan;
  }
}
