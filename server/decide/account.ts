import { TopUpReference } from '#db/events/account-events.ts';
import type { EventOf, PlanTerms } from '#db/events/events.ts';
import { ACCOUNT_LEVELS } from '#db/events/parts.ts';
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

/**
 * Puts an account below another one, or with null below none; null when it is there already.
 * @param command.accounts all accounts, by their ids.
 * @throws {DecisionError} when accounts would form a circle, or more than three levels.
 */
export function setParent(
  account: Account,
  command: { parent: Account | null; accounts: ReadonlyMap<string, Account>; actor: string },
): EventOf<'account.parent_changed'> | null {
  const { parent, accounts, actor } = command;
  if (account.parent === (parent?.id ?? null)) return null;
  if (parent !== null) {
    const above = chainFrom(parent, accounts);
    if (above.includes(account.id))
      throw new DecisionError(
        'not_allowed',
        `Account "${parent.name}" is account "${account.name}" itself or below it.`,
      );
    // The most levels from the account down to one below it.
    const below = Math.max(
      ...[...accounts.values()].map((each) => chainFrom(each, accounts).indexOf(account.id) + 1),
    );
    if (above.length + Math.max(1, below) > ACCOUNT_LEVELS)
      throw new DecisionError('not_allowed', `Accounts can have at most ${ACCOUNT_LEVELS} levels.`);
  }
  return { type: 'account.parent_changed', account: account.id, parent: parent?.id ?? null, actor };
}

/** The ids of an account, of its parent and so on. */
function chainFrom(account: Account, accounts: ReadonlyMap<string, Account>): string[] {
  const ids: string[] = [];
  for (
    let each: Account | undefined = account;
    each !== undefined && !ids.includes(each.id);
    each = each.parent === null ? undefined : accounts.get(each.parent)
  )
    ids.push(each.id);
  return ids;
}

/**
 * Adds money to the prepaid balance of an account. That its reference is new is checked when the event is
 * appended.
 * @throws {DecisionError} when the amount or the reference is invalid, or the top-ups are too large together.
 */
export function topUp(
  account: Account,
  command: { amount: number; reference: string; actor: string },
): EventOf<'account.topped_up'> {
  const { amount, actor } = command;
  const reference = TopUpReference.safeParse(command.reference);
  if (!reference.success) throw new DecisionError('invalid', 'A reference has 1 to 200 characters.');
  if (!Number.isSafeInteger(amount) || amount <= 0)
    throw new DecisionError('invalid', 'The amount must be more than 0 dollars.');
  if (!Number.isSafeInteger(account.toppedUp + amount))
    throw new DecisionError('not_allowed', 'All top-ups of an account together can be 9,007,199 dollars.');
  return {
    type: 'account.topped_up',
    account: account.id,
    amount_nanousd: amount,
    reference: reference.data,
    actor,
  };
}

/** The account that a command names. */
export function requireAccount(account: Account | undefined, name: string): Account {
  if (!account) throw new DecisionError('not_found', `There is no account named "${name}".`);
  return account;
}
