import type { EventOf } from '#db/events/events.ts';
import type { IdentityProviderEvent } from '#db/events/subjects.ts';
import {
  evolveIdentityProvider,
  evolveSignIn,
  type IdentityProvider,
  SIGN_IN_FIRST,
  type SignInSettings,
} from '#db/fold/identity.ts';
import type { Stored } from '#db/fold/stored.ts';

/** Identity providers and the password policy in memory. */
export class Identities {
  readonly #providers = new Map<string, IdentityProvider>();
  #signIn: SignInSettings = SIGN_IN_FIRST;

  apply(stored: Stored<IdentityProviderEvent>): void {
    const { provider: name } = stored.event;
    const provider = evolveIdentityProvider(this.#providers.get(name), stored);
    if (provider) this.#providers.set(name, provider);
  }

  applySignIn(stored: Stored<EventOf<'sign_in.changed'>>): void {
    this.#signIn = evolveSignIn(stored);
  }

  /** An active provider, by its name. */
  get(name: string): IdentityProvider | undefined {
    const provider = this.#providers.get(name);
    return provider?.state === 'active' ? provider : undefined;
  }

  /** The version that the stream of a provider has reached, also of a removed one. */
  versionOf(name: string): number {
    return this.#providers.get(name)?.version ?? 0;
  }

  /** The active providers, in the order in which they were first configured. */
  get active(): IdentityProvider[] {
    return [...this.#providers.values()].filter(({ state }) => state === 'active');
  }

  get signIn(): SignInSettings {
    return this.#signIn;
  }
}
