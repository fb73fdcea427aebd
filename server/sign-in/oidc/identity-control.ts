import type { Client } from 'pg';
import type { ControlEvent } from '#db/events/events.ts';
import type { IdentityProviderTerms, PasswordPolicy } from '#db/events/identity/identity-events.ts';
import type { ControlAppend } from '#db/log/append.ts';
import { deleteIdentities, readIdentities } from '#db/members/identities.ts';
import { deleteSessions } from '#db/members/sessions.ts';
import { takeLock } from '#db/postgres/locks.ts';
import type { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { changeSignIn, configureProvider } from '#server/decide/identity.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { checkIssuer } from '#server/sign-in/oidc/issuer.ts';
import type { Changed } from '#server/sign-in/member-changes.ts';
import { openClientSecret, storeClientSecret } from '#server/sign-in/oidc/client-secret.ts';
import { sessionClosedAppends } from '#server/sign-in/sessions.ts';

/** Changes of identity providers and of the password policy, each within a transaction. */
export class IdentityControl {
  readonly #control: Control;
  readonly #client: Client;

  /** @param client the connection of `control`, in a transaction. */
  constructor(control: Control, client: Client) {
    this.#control = control;
    this.#client = client;
  }

  /**
   * Adds or changes a provider.
   * @param clientSecret null: none; absent: as before.
   * @throws {DecisionError} when the terms are invalid.
   */
  async configure(
    pepper: Buffer,
    name: string,
    terms: IdentityProviderTerms,
    clientSecret: string | null | undefined,
  ): Promise<Changed> {
    await this.#client.query(takeLock('identity'));
    const model = await this.#control.load();
    const { actor } = this.#control;
    const command = { name, terms, account: (id: string) => model.account(id), actor };
    const { identities } = model;
    const known = identities.get(name);
    const changed = configureProvider(identities.active, command);
    if (changed) checkIssuer(changed.terms);
    const isSecretNew =
      clientSecret !== undefined && clientSecret !== (await openClientSecret(this.#client, pepper, name));
    if (changed === null && !isSecretNew) return UNCHANGED;
    // A replaced secret is a change, whose event has the terms once more.
    const event: ControlEvent = changed ?? {
      type: 'identity_provider.configured',
      provider: name,
      terms: known?.terms ?? terms,
      actor,
    };
    if (isSecretNew) await storeClientSecret(this.#client, pepper, name, clientSecret);
    return this.#append([{ event, version: identities.versionOf(name) + 1 }]);
  }

  /**
   * Removes a provider, its client secret, the identities that it gave and the sessions of their members. The
   * members stay; those without a password can't sign in until they get a reset link or a provider again.
   * @param ownSession the session that asks, which stays open.
   * @throws {DecisionError} when there is no such provider.
   */
  async remove(pepper: Buffer, name: string, ownSession: string | null): Promise<Changed> {
    await this.#client.query(takeLock('identity'));
    const model = await this.#control.load();
    const provider = model.identities.get(name);
    if (!provider) throw new DecisionError('not_found', `There is no identity provider "${name}".`);
    await storeClientSecret(this.#client, pepper, name, null);
    const members = await deleteIdentities(this.#client, name);
    const closed = await this.#endSessions(model, new Set(members), ownSession);
    const event = {
      type: 'identity_provider.removed' as const,
      provider: name,
      actor: this.#control.actor,
    };
    return this.#append([...closed, { event, version: provider.version + 1 }]);
  }

  /** Sets who may sign in with a password. Sessions that the policy wouldn't open any more end. */
  async setPasswords(passwords: PasswordPolicy): Promise<Changed> {
    const model = await this.#control.load();
    const { signIn } = model.identities;
    const event = changeSignIn(signIn, { passwords, actor: this.#control.actor });
    if (event === null) return UNCHANGED;
    const closed: ControlAppend[] = [];
    if (passwords === 'administrators') {
      const identified = await readIdentities(this.#client);
      const others = [...model.members].filter(
        ({ id, role, state }) => state === 'active' && role !== 'administrator' && !identified.has(id),
      );
      closed.push(...(await this.#endSessions(model, new Set(others.map(({ id }) => id)))));
    }
    return this.#append([...closed, { event, version: signIn.version + 1 }]);
  }

  async #endSessions(
    model: ReadModel,
    members: ReadonlySet<string>,
    except: string | null = null,
  ): Promise<ControlAppend[]> {
    const closed: ControlAppend[] = [];
    for (const id of members) {
      const account = model.member(id)?.account;
      const ended = await deleteSessions(this.#client, id, except);
      if (account !== undefined)
        closed.push(...sessionClosedAppends(ended, { id, account }, this.#control.actor));
    }
    return closed;
  }

  async #append(appends: readonly ControlAppend[]): Promise<Changed> {
    const type = appends.at(-1)?.event.type ?? '';
    const position = await this.#control.append(appends);
    return { position, done: { event: { type, position } } };
  }
}

const UNCHANGED: Changed = { position: null, done: { event: null } };
