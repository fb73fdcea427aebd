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

/** Somebody who comes in: to an account that is there, or with one of their own. */
export type Registration = {
  email: string;
  passwordHash: string;
  role: Role;
  /** The id of the account that they join; or the name of their own, and the plan that it lands on. */
  account: { joins: string } | { name: string; plan: string | null };
  invitation?: string;
};

/** The address belongs to somebody already. */
export const EMAIL_TAKEN = new ApiError('already_exists', {
  message: 'There is a member with this e-mail address already. Sign in, or use another address.',
});

/** Other registrations may take a name between our look and our claim; each costs one of these. */
const NAME_ATTEMPTS = 5;
const NAME_CHARACTERS_MAX = AccountName.maxLength ?? 100;

/**
 * Lets somebody in: their row, their account where they bring one, and all that the log tells of it,
 * in one transaction.
 * @param admit uses up what they come by, within that transaction, or refuses.
 * @param session opens one for them as well; null where they sign in later, and are not told whether they
 * came in.
 */
export async function registerMember(
  seat: { control: ControlWriter; readModel: ReadModel },
  actor: string | null,
  arrival: Registration,
  admit: (client: Client) => Promise<ApiError | null>,
  session: { sessions: Sessions; request: IncomingMessage; response: ServerResponse } | null,
): Promise<{ member: string; session: string | null } | ApiError> {
  const { readModel } = seat;
  for (let attempt = 1; ; attempt++) {
    const member = publicId();
    const { account: wanted } = arrival;
    const account =
      'joins' in wanted
        ? wanted
        : {
            ...wanted,
            name: freeName(wanted.name, new Set([...readModel.accounts].map(({ name }) => name))),
          };
    const comeIn = async (control: Control, client: Client) => {
      const refused = await admit(client);
      if (refused) return refused;
      if (!(await insertMember(client, { ...arrival, id: member }))) return EMAIL_TAKEN;
      const events = registrationAppends(member, { ...arrival, account }, control);
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
        const done = await changeWithoutWait(seat.control, by, comeIn);
        return done instanceof ApiError ? done : { member, session: null };
      }
      const opened = await change(seat, by, comeIn);
      if (opened instanceof ApiError) return opened;
      opened?.tell(session.response);
      return { member, session: opened?.id ?? null };
    } catch (error) {
      if (!(error instanceof ConflictError) || 'joins' in account || attempt === NAME_ATTEMPTS) throw error;
      // Somebody else has the name, of which this process will hear in a moment.
      await readModel.until(() => readModel.accountNamed(account.name) !== undefined);
    }
  }
}

function registrationAppends(
  member: string,
  { account, role, invitation }: Registration,
  { actor }: Control,
): { account: string; appends: ControlAppend[] } {
  const added = (id: string): ControlAppend => ({
    event: {
      type: 'member.added',
      member,
      account: id,
      role,
      actor,
      ...(invitation === undefined ? {} : { invitation }),
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

/**
 * The name, or with the first number that makes it one of its own: whether it was free need not be told.
 * Pure.
 */
export function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name;
  for (let number = 2; ; number++) {
    const ending = ` ${number}`;
    const candidate = `${name.slice(0, NAME_CHARACTERS_MAX - ending.length).trimEnd()}${ending}`;
    if (!taken.has(candidate)) return candidate;
  }
}
