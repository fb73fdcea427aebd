import type { EventOf, PlanTerms } from '#db/events/events.ts';
import type { AccountEvent, PlanEvent } from '#db/events/subjects.ts';
import type { Plan } from '#db/fold/plan.ts';
import type { Stored } from '#db/fold/stored.ts';

/** Who owns keys and quota. */
export type Account = {
  id: string;
  name: string;
  state: 'active' | 'suspended';
  /** The name of its plan; null: on none. */
  plan: string | null;
  /** Terms of its own, each field in place of the plan's. */
  override: PlanTerms | null;
  /** The account that its calls are charged to as well; null: none. */
  parent: string | null;
  /** The sum of its top-ups, in nano-dollars. */
  toppedUp: number;
  /** The position of its newest event that changed its plan, override, parent or top-ups, or 0. */
  termsPosition: number;
  /**
   * The position of the newest event, its own or its plan's, that reset its windows, or 0.
   */
  resetPosition: number;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The account after the next event of its own stream; undefined where it was never registered. */
export function evolveAccount(
  account: Account | undefined,
  stored: Stored<AccountEvent>,
): Account | undefined {
  const { event, version } = stored;
  if (event.type === 'account.registered') return newAccount(event, version);
  return account && { ...account, ...changeBy(event, account, stored.position), version };
}

/** The account that its registration makes. */
export function newAccount(event: EventOf<'account.registered'>, version = 1): Account {
  return {
    id: event.account,
    name: event.name,
    state: 'active',
    plan: null,
    override: null,
    parent: null,
    toppedUp: 0,
    termsPosition: 0,
    resetPosition: 0,
    version,
  };
}

function changeBy(
  event: Exclude<AccountEvent, { type: 'account.registered' }>,
  { resetPosition, toppedUp }: Account,
  position: number,
): Partial<Account> {
  switch (event.type) {
    case 'account.suspended':
      return { state: 'suspended' };
    case 'account.reinstated':
      return { state: 'active' };
    case 'account.plan_changed':
      return {
        plan: event.plan,
        termsPosition: position,
        resetPosition: event.windows === 'reset' ? position : resetPosition,
      };
    case 'account.parent_changed':
      return { parent: event.parent, termsPosition: position };
    case 'account.topped_up':
      return { toppedUp: toppedUp + event.amount_nanousd, termsPosition: position };
    case 'account.terms_overridden':
      return {
        override: Object.keys(event.terms).length === 0 ? null : event.terms,
        termsPosition: position,
        resetPosition: event.windows === 'reset' ? position : resetPosition,
      };
  }
}

/**
 * The account after an event of its plan. A change that resets the windows is noted with the account, so
 * that they stay reset when it moves to another plan; its own stream goes no further.
 */
export function applyPlanEvent(account: Account, { event, position }: Stored<PlanEvent>): Account {
  return event.type === 'plan.changed' && event.windows === 'reset' && event.plan === account.plan
    ? { ...account, resetPosition: position }
    : account;
}

/** What an account may use: its plan's terms, each field replaced by its own where it has one. */
export function accountTerms(account: Account, plan: Plan | undefined): PlanTerms {
  return { ...plan?.terms, ...account.override };
}

/** The same with the prepaid balance that the terms limit it to, if they do. */
export function chargedTerms(
  account: Account,
  plan: Plan | undefined,
): PlanTerms & { topped_up_nanousd?: number } {
  const terms = accountTerms(account, plan);
  return terms.prepaid === true ? { ...terms, topped_up_nanousd: account.toppedUp } : terms;
}
