import type { EventOf, PlanTerms } from '#db/events/events.ts';
import type { Account } from '#db/fold/account.ts';
import type { Plan } from '#db/fold/plan.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { WindowsChoice } from '#server/decide/plan.ts';
import { sameTerms } from '#server/decide/terms.ts';

/** Registers a new account. That its name is free is checked when the event is appended. */
export function registerAccount(command: {
  id: string;
  name: string;
  actor: string;
}): EventOf<'account.registered'> {
  return { type: 'account.registered', account: command.id, name: command.name, actor: command.actor };
}

/** Stops an account's calls; null when they are stopped already. */
export function suspendAccount(account: Account, actor: string): EventOf<'account.suspended'> | null {
  return account.state === 'suspended' ? null : { type: 'account.suspended', account: account.id, actor };
}

/** Allows a suspended account's calls again; null when it is not suspended. */
export function reinstateAccount(account: Account, actor: string): EventOf<'account.reinstated'> | null {
  return account.state === 'active' ? null : { type: 'account.reinstated', account: account.id, actor };
}

/**
 * Puts an account on a plan, or with null on none; null when it is there already.
 * @throws {DecisionError} when the plan is retired, since it would stop the account's calls.
 */
export function setPlan(
  account: Account,
  command: { plan: Plan | null; windows: WindowsChoice; actor: string },
): EventOf<'account.plan_changed'> | null {
  const { plan, windows, actor } = command;
  if (plan?.state === 'retired')
    throw new DecisionError('not_allowed', `Plan "${plan.name}" is retired; no account can be put on it.`);
  const name = plan?.name ?? null;
  if (windows === 'keep' && account.plan === name) return null;
  return { type: 'account.plan_changed', account: account.id, plan: name, windows, actor };
}

/** Gives an account terms of its own in place of those it had, none with {}; null when it has just these. */
export function overrideTerms(
  account: Account,
  command: { terms: PlanTerms; windows: WindowsChoice; actor: string },
): EventOf<'account.terms_overridden'> | null {
  const { terms, windows, actor } = command;
  if (windows === 'keep' && sameTerms(account.override ?? {}, terms)) return null;
  return { type: 'account.terms_overridden', account: account.id, terms, windows, actor };
}

/** The account that a command names. */
export function requireAccount(account: Account | undefined, name: string): Account {
  if (!account) throw new DecisionError('not_found', `There is no account named "${name}".`);
  return account;
}
