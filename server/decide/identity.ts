import type { EventOf } from '#db/events/events.ts';
import {
  IdentityProviderTerms,
  type PasswordPolicy,
  ProviderName,
} from '#db/events/identity/identity-events.ts';
import type { Account } from '#db/fold/account.ts';
import type { IdentityProvider, SignInSettings } from '#db/fold/identity.ts';
import { IDENTITY_PROVIDERS_MAX } from '#server/decide/bounds.ts';
import { DecisionError } from '#server/decide/decision.ts';

/**
 * Adds or changes an identity provider; null when nothing changes.
 * @param command.account looks an account up by its id.
 * @throws {DecisionError} when the terms are invalid, or there are too many providers.
 */
export function configureProvider(
  active: readonly IdentityProvider[],
  command: {
    name: string;
    terms: IdentityProviderTerms;
    account: (id: string) => Account | undefined;
    actor: string;
  },
): EventOf<'identity_provider.configured'> | null {
  const name = ProviderName.safeParse(command.name);
  if (!name.success)
    throw new DecisionError('invalid', `The name of a provider ${name.error.issues[0]?.message}.`);
  const parsed = IdentityProviderTerms.safeParse(command.terms);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new DecisionError('invalid', `"${issue?.path.join('.')}": ${issue?.message}.`);
  }
  const terms = parsed.data;
  for (const { account } of terms.rules)
    if (account !== null && !command.account(account))
      throw new DecisionError('not_found', `There is no account ${account}. Choose another in the rules.`);
  const known = active.find((provider) => provider.name === name.data);
  if (known && JSON.stringify(known.terms) === JSON.stringify(terms)) return null;
  if (!known && active.length >= IDENTITY_PROVIDERS_MAX)
    throw new DecisionError(
      'not_allowed',
      `There are ${IDENTITY_PROVIDERS_MAX} identity providers already, the maximum. Remove one first.`,
    );
  return { type: 'identity_provider.configured', provider: name.data, terms, actor: command.actor };
}

/** Sets who may sign in with a password; null when nothing changes. */
export function changeSignIn(
  settings: SignInSettings,
  command: { passwords: PasswordPolicy; actor: string },
): EventOf<'sign_in.changed'> | null {
  return settings.passwords === command.passwords ? null : { type: 'sign_in.changed', ...command };
}
