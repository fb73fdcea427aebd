import type { PlanTerms } from '#db/events/events.ts';
import type { PlanEvent } from '#db/events/subjects.ts';
import type { Stored } from '#db/fold/stored.ts';

/** What the accounts on it may use. */
export type Plan = {
  name: string;
  terms: PlanTerms;
  state: 'active' | 'retired';
  /** The position of its newest event. */
  position: number;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The plan after the next event of its stream; undefined where it was never defined. */
export function evolvePlan(
  plan: Plan | undefined,
  { event, position, version }: Stored<PlanEvent>,
): Plan | undefined {
  if (event.type === 'plan.defined')
    return { name: event.plan, terms: event.terms, state: 'active', position, version };
  return plan && { ...plan, ...changeBy(event), position, version };
}

function changeBy(event: Exclude<PlanEvent, { type: 'plan.defined' }>): Partial<Plan> {
  switch (event.type) {
    case 'plan.changed':
      return { terms: event.terms };
    case 'plan.retired':
      return { state: 'retired' };
  }
}
