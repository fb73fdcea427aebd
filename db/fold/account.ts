import type { ControlEvent, PlanTerms } from '#db/events/events.ts';
import type { Plan } from '#db/fold/plan.ts';

/** Who owns keys and quota. */
export type Account = {
  id: string;
  name: string;
  state: 'active' | 'suspended';
  /** The name of its plan; null: on none. */
  plan: string | null;
  /** Terms of its own, each field in place of the plan's. */
  override: PlanTerms | null;
  /** The position of its newest event that changed its plan or its override; 0 when there is none. */
  termsPosition: number;
  /**
   * The position of the newest event, its own or its plan's, that began its windows anew; 0 when there is
   * none.
   */
  resetPosition: number;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/**
 * The account after one more event of its own stream, or of its plan: a change that begins the
 * windows anew is noted with the account, so that its windows stay begun when it moves to another
 * plan. Events of other subjects change nothing.
 * @param position where the event stands in the log.
 */
export function evolveAccount(
  account: Account | undefined,
  event: ControlEvent,
  position: number,
): Account | undefined {
  switch (event.type) {
    case 'account.registered':
      return {
        id: event.account,
        name: event.name,
        state: 'active',
        plan: null,
        override: null,
        termsPosition: 0,
        resetPosition: 0,
        version: 1,
      };
    case 'account.suspended':
      return account && { ...account, state: 'suspended', version: account.version + 1 };
    case 'account.reinstated':
      return account && { ...account, state: 'active', version: account.version + 1 };
    case 'account.plan_changed':
      return account && { ...account, plan: event.plan, ...changed(account, event.windows, position) };
    case 'account.terms_overridden': {
      const override = Object.keys(event.terms).length === 0 ? null : event.terms;
      return account && { ...account, override, ...changed(account, event.windows, position) };
    }
    case 'plan.changed':
      return account?.plan === event.plan && event.windows === 'reset'
        ? { ...account, resetPosition: position }
        : account;
    default:
      return account;
  }
}

function changed(
  account: Account,
  windows: 'keep' | 'reset',
  position: number,
): Pick<Account, 'termsPosition' | 'resetPosition' | 'version'> {
  const resetPosition = windows === 'reset' ? position : account.resetPosition;
  return { termsPosition: position, resetPosition, version: account.version + 1 };
}

/** What an account may use: its plan's terms, each field replaced by its own where it has one. */
export function accountTerms(account: Account, plan: Plan | undefined): PlanTerms {
  return { ...plan?.terms, ...account.override };
}
