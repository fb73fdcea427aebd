import type { Client } from 'pg';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AccountName, type Role } from '#db/events/parts.ts';
import { publicId } from '#db/ids.ts';
import { ConflictError, type ControlAppend } from '#db/log/append.ts';
import { insertMember } from '#db/members/members.ts';
import type { Control } from '#server/control/control.ts';
import type { ControlWriter } from '#server/control/control-writer.ts';
import { registerAccount } from '#server/decide/account.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type { Sessions } from '#server/sign-in/sessions.ts';
import { change, changeWithoutWait } from '#server/sign-in/transaction.ts';

/** A member to create: in an existing account, or with a new one. */
export type Registration = {
  email: string;
  passwordHash: string;
  role: Role;
  /** The id of an existing account; or the name of a new one, and its plan. */
  account: { joins: string } | { name: string; plan: string | null };
  invitation?: string;
  /** The identity provider that they sign in through. */
  provider?: string;
};

export const EMAIL_TAKEN = new ApiError('already_exists', {
  message: 'A member with this email already exists. Sign in, or use another email.',
});

/** Concurrent registrations may claim the name between the check and the append; each costs one attempt. */
const NAME_ATTEMPTS = 5;
const NAME_CHARACTERS_MAX = AccountName.maxLength ?? 100;

type Session = { sessions: Sessions; request: IncomingMessage; response: ServerResponse };

/**
 * Creates a member, their account if it is new, and the events of both in one transaction.
 * @param actor null: the new member.
 * @param admit uses up the link within the transaction, or returns an error that cancels it.
 * @param session opens a session too; null: the member signs in later, and the reply must not reveal
 * whether they were created.
 */
export async function registerMember(
  writer: { control: ControlWriter; readModel: ReadModel },
  actor: string | null,
  registration: Registration,
  admit: (client: Client) => Promise<ApiError | null>,
  session: Session | null,
): Promise<{ member: string; session: string | null } | ApiError> {
  const { readModel } = writer;
  for (let attempt = 1; ; attempt++) {
    const member = publicId();
    const account = withFreeName(registration.account, readModel);
    const work = async (control: Control, client: Client) => {
      const failed = await admit(client);
      if (failed) return failed;
      if (!(await insertMember(client, { ...registration, id: member }))) return EMAIL_TAKEN;
      const events = newMemberAppends(member, { ...registration, account }, control.actor);
      const opened =
        session === null
          ? null
          : await session.sessions.open(client, session.request, { id: member, account: events.account });
      const position = await control.append([...events.appends, ...(opened?.appends ?? [])]);
      return { position, done: opened };
    };
    try {
      const by = actor ?? `member/${member}`;
      if (session === null) {
        const done = await changeWithoutWait(writer.control, by, work);
        return done instanceof ApiError ? done : { member, session: null };
      }
      const opened = await change(writer, by, work);
      if (opened instanceof ApiError) return opened;
      opened?.setCookie(session.response);
      return { member, session: opened?.id ?? null };
    } catch (error) {
      if (!(error instanceof ConflictError) || 'joins' in account || attempt === NAME_ATTEMPTS) throw error;
      // Another registration claimed the name. Retry once the read model knows it.
      await readModel.until(() => readModel.accountNamed(account.name) !== undefined);
    }
  }
}

function withFreeName(account: Registration['account'], readModel: ReadModel): Registration['account'] {
  if ('joins' in account) return account;
  const taken = new Set([...readModel.accounts].map(({ name }) => name));
  return { ...account, name: freeName(account.name, taken) };
}

/** The events of a new member and, if it is new, their account. */
export function newMemberAppends(
  member: string,
  { account, role, invitation, provider }: Omit<Registration, 'email' | 'passwordHash'>,
  actor: string,
): { account: string; appends: ControlAppend[] } {
  const added = (id: string): ControlAppend => ({
    event: {
      type: 'member.added',
      member,
      account: id,
      role,
      actor,
      ...(invitation === undefined ? {} : { invitation }),
      ...(provider === undefined ? {} : { provider }),
    },
    version: 1,
  });
  if ('joins' in account) return { account: account.joins, appends: [added(account.joins)] };
  const { name, plan } = account;
  const id = publicId();
  const appends: ControlAppend[] = [
    { event: registerAccount({ id, name, actor }), version: 1, claim: `account-name/${name}` },
  ];
  if (plan !== null)
    appends.push({
      event: { type: 'account.plan_changed', account: id, plan, windows: 'keep', actor },
      version: 2,
    });
  return { account: id, appends: [...appends, added(id)] };
}

/** The name, or the name with the first number that makes it unique. Pure. */
export function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  for (let number = 2; ; number++) {
    const ending = ` ${number}`;
    const candidate = `${name.slice(0, NAME_CHARACTERS_MAX - ending.length).trimEnd()}${ending}`;
    if (!taken.has(candidate)) return candidate;
  }
}
