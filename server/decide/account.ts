import type { EventOf } from '#db/events.ts';
import type { Account } from '#db/fold/account.ts';
import { DecisionError } from '#server/decide/decision.ts';

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

/** The account that a command names. */
export function requireAccount(account: Account | undefined, name: string): Account {
  if (!account) throw new DecisionError('not_found', `There is no account named "${name}".`);
  return account;
}
