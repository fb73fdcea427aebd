import type { EventOf } from '#db/events/events.ts';
import type { IdentityProviderTerms, PasswordPolicy } from '#db/events/identity/identity-events.ts';
import type { IdentityProviderEvent } from '#db/events/subjects.ts';
import type { Stored } from '#db/fold/stored.ts';

/** An OpenID provider that members sign in through. Its client secret is not in the log. */
export type IdentityProvider = {
  name: string;
  terms: IdentityProviderTerms;
  state: 'active' | 'removed';
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The provider after the next event of its stream; undefined where it was never configured. */
export function evolveIdentityProvider(
  provider: IdentityProvider | undefined,
  { event, version }: Stored<IdentityProviderEvent>,
): IdentityProvider | undefined {
  switch (event.type) {
    case 'identity_provider.configured':
      return { name: event.provider, terms: event.terms, state: 'active', version };
    case 'identity_provider.removed':
      return provider && { ...provider, state: 'removed', version };
  }
}

/** Who may sign in with a password. */
export type SignInSettings = {
  passwords: PasswordPolicy;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

export const SIGN_IN_FIRST: SignInSettings = { passwords: 'everyone', version: 0 };

/** The settings after the next event of their stream, which replaces the one before. */
export const evolveSignIn = ({ event, version }: Stored<EventOf<'sign_in.changed'>>): SignInSettings => ({
  passwords: event.passwords,
  version,
});
