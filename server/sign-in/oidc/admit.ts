import type { Client } from 'pg';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { IdentityRule } from '#db/events/identity/identity-events.ts';
import type { IdentityProvider } from '#db/fold/identity.ts';
import { publicId } from '#db/ids.ts';
import type { ControlAppend } from '#db/log/append.ts';
import { readStream } from '#db/log/read.ts';
import { insertIdentity, memberByIdentity } from '#db/members/identities.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { insertMember, lockMember, memberByEmail } from '#db/members/members.ts';
import type { Control } from '#server/control/control.ts';
import type { ControlWriter } from '#server/control/control-writer.ts';
import { reinstateAccount, suspendAccount } from '#server/decide/account.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { loadMember, removalAppends, roleAppends } from '#server/sign-in/member-changes.ts';
import type { Claims } from '#server/sign-in/oidc/open-id.ts';
import { findRule } from '#server/sign-in/oidc/rules.ts';
import { newMemberAppends } from '#server/sign-in/registration.ts';
import type { Sessions } from '#server/sign-in/sessions.ts';
import { change } from '#server/sign-in/transaction.ts';

const HOUR_MS = 60 * 60 * 1000;

/** A member to let in, with the events that their rule leads to. */
type Admitted = { member: string; account: string; appends: ControlAppend[] };
type Outcome = {
  position: number | null;
  done: ApiError | { setCookie: (response: ServerResponse) => void };
};

/**
 * Lets in a person who has signed in at a provider: finds or creates their member, applies the rule that they
 * fall under, and opens a session, in one transaction. A member who falls under no rule any more is removed.
 * @returns the error to show.
 */
export async function admitIdentity(
  { control, readModel, sessions }: { control: ControlWriter; readModel: ReadModel; sessions: Sessions },
  provider: IdentityProvider,
  claims: Claims,
  { request, response }: { request: IncomingMessage; response: ServerResponse },
): Promise<ApiError | null> {
  const admission = new Admission(provider, claims, readModel);
  const actor = `identity_provider/${provider.name}`;
  const done = await change<Outcome['done']>({ control, readModel }, actor, async (writer, client) => {
    // One at a time, so that the last of several who leave an account is known to be the last.
    await client.query(takeLock('identity'));
    // The provider may have been changed or removed since the sign-in began.
    if ((await writer.loadVersion(actor)) !== provider.version) return new ApiError('sign_in_expired');
    const known = await memberByIdentity(client, claims);
    const rule = findRule(provider.terms.rules, claims.groups);
    if (rule === null) return admission.refuse(writer, client, known);
    const admitted =
      known === null
        ? await admission.join(writer, client, rule)
        : await admission.update(writer, client, known, rule);
    if (admitted instanceof ApiError) return admitted;
    const { member: id, account, appends } = admitted;
    const maxMs = provider.terms.session_hours * HOUR_MS;
    const session = await sessions.open(client, request, { id, account }, maxMs);
    const position = await writer.append([...appends, ...session.appends]);
    return { position, done: session };
  });
  if (done instanceof ApiError) return done;
  done.setCookie(response);
  return null;
}

/** The decisions on one person. Each writes the rows and returns the events. */
class Admission {
  readonly #provider: IdentityProvider;
  readonly #claims: Claims;
  readonly #readModel: ReadModel;

  constructor(provider: IdentityProvider, claims: Claims, readModel: ReadModel) {
    this.#provider = provider;
    this.#claims = claims;
    this.#readModel = readModel;
  }

  /** Removes the member of a person who falls under no rule any more; the last administrator stays. */
  async refuse(control: Control, client: Client, known: string | null): Promise<Outcome> {
    const done = new ApiError('no_matching_rule');
    const appends = known === null ? [] : await this.#remove(control, client, known);
    if (appends instanceof ApiError || appends.length === 0) return { position: null, done };
    return { position: await control.append(appends), done };
  }

  /** A person's first sign-in: the member with their email, if the provider may link it, or a new one. */
  async join(control: Control, client: Client, rule: IdentityRule): Promise<Admitted | ApiError> {
    const { email, isEmailVerified } = this.#claims;
    if (email === null) return new ApiError('email_required');
    const row = await memberByEmail(client, email);
    if (row === null) return this.#create(control, client, email, rule);
    if (!this.#provider.terms.link_by_email || !isEmailVerified) return new ApiError('email_in_use');
    if (!(await this.#link(client, row.id))) return new ApiError('version_conflict');
    return this.update(control, client, row.id, rule);
  }

  /**
   * The role and account of a known member follow the rule. A member who has a password keeps their account,
   * and the last administrator stays as they are.
   */
  async update(
    control: Control,
    client: Client,
    id: string,
    rule: IdentityRule,
  ): Promise<Admitted | ApiError> {
    const member = await loadMember(client, id);
    const row = await lockMember(client, id);
    if (!row) return new ApiError('version_conflict');
    if (rule.account !== null && rule.account !== member.account && row.passwordHash === null) {
      const removed = await this.#remove(control, client, id);
      if (!(removed instanceof ApiError)) {
        const created = await this.#create(control, client, row.email, rule);
        return created instanceof ApiError
          ? created
          : { ...created, appends: [...removed, ...created.appends] };
      }
    }
    const changed = await roleAppends(client, id, rule.role, control.actor);
    const appends = changed instanceof ApiError ? [] : changed;
    const reinstated = await this.#reinstate(control, client, member.account);
    return { member: id, account: member.account, appends: [...appends, ...reinstated] };
  }

  async #create(
    control: Control,
    client: Client,
    email: string,
    { role, account }: IdentityRule,
  ): Promise<Admitted | ApiError> {
    const id = publicId();
    const { name: provider, terms } = this.#provider;
    const { plan } = this.#readModel.registration;
    // Names stay in the log, so that a person's own name is not theirs.
    const joins = account === null ? { name: `${terms.label} ${id}`, plan } : { joins: account };
    if (!(await insertMember(client, { id, email, passwordHash: null, role })))
      return new ApiError('email_in_use');
    if (!(await this.#link(client, id))) return new ApiError('version_conflict');
    const added = newMemberAppends(id, { role, account: joins, provider }, control.actor);
    const reinstated = account === null ? [] : await this.#reinstate(control, client, account);
    return { member: id, account: added.account, appends: [...added.appends, ...reinstated] };
  }

  #link(client: Client, member: string): Promise<boolean> {
    const { issuer, subject } = this.#claims;
    return insertIdentity(client, { issuer, subject, provider: this.#provider.name, member });
  }

  /** Removes a member. Their account is suspended if the provider says so and no one else is in it. */
  async #remove(control: Control, client: Client, id: string): Promise<ControlAppend[] | ApiError> {
    const { account: ref } = await loadMember(client, id);
    const appends = await removalAppends(client, id, control.actor);
    if (appends instanceof ApiError || this.#provider.terms.empty_accounts === 'keep') return appends;
    const { members } = await control.load();
    const others = [...members].filter(
      (each) => each.account === ref && each.state === 'active' && each.id !== id,
    );
    if (others.length > 0) return appends;
    const account = await control.loadAccount({ id: ref }, { evenUnapplied: true });
    const event = suspendAccount(account, control.actor);
    return event === null ? appends : [...appends, { event, version: account.version + 1 }];
  }

  /** Ends a suspension by this provider; one by a person or a key stays. */
  async #reinstate(control: Control, client: Client, ref: string): Promise<ControlAppend[]> {
    const account = await control.loadAccount({ id: ref });
    const event = reinstateAccount(account, control.actor);
    if (event === null) return [];
    const events = await readStream(client, `account/${ref}`);
    const suspended = events.findLast((each) => each.event.type === 'account.suspended');
    if (suspended?.event.actor !== control.actor) return [];
    return [{ event, version: account.version + 1 }];
  }
}
