import type { Client } from 'pg';
import type { Role } from '#db/events/parts.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { evolveMember, type Member } from '#db/fold/member.ts';
import { deleteLinks, deleteLinksMadeBy } from '#db/members/links.ts';
import type { ControlAppend } from '#db/log/append.ts';
import { readStream } from '#db/log/read.ts';
import {
  type Administrator,
  eraseMember,
  lockAdministrators,
  setPasswordHash,
  setRole,
} from '#db/members/members.ts';
import { deleteSessions } from '#db/members/sessions.ts';
import type { Control } from '#server/control/control.ts';
import type { Change } from '#server/control/change.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { type Link, makeLink } from '#server/sign-in/links.ts';
import { sessionClosedAppends } from '#server/sign-in/sessions.ts';

/** Changes of members, each within a transaction: the rows and their events. */

export type Changed = { position: number | null; done: Change };
const UNCHANGED: Changed = { position: null, done: { event: null } };

/** Loads a member from the log. @throws {DecisionError} if it doesn't exist. */
export async function loadMember(client: Client, id: string): Promise<Member> {
  const events = await readStream(client, `member/${id}`);
  const member = events.reduce<Member | undefined>(evolveMember, undefined);
  if (member?.state !== 'active') throw new DecisionError('not_found', 'There is no such member.');
  return member;
}

/**
 * Whether an administrator is the last one with a password. They stay, so that no fault of an identity
 * provider locks everyone out. Pure.
 */
function isLast(administrators: readonly Administrator[], id: string): boolean {
  return (
    administrators.some((each) => each.id === id) &&
    !administrators.some((each) => each.id !== id && each.hasPassword)
  );
}

/**
 * Changes a member's role, except the last administrator's. Links created with the old role's rights are
 * revoked.
 */
export async function changeRole(
  control: Control,
  client: Client,
  id: string,
  role: Role,
): Promise<Changed | ApiError> {
  const appends = await roleAppends(client, id, role, control.actor);
  return appends instanceof ApiError ? appends : appendAll(control, appends);
}

/** Writes the rows of a changed role. @returns the events to append, the change itself last. */
export async function roleAppends(
  client: Client,
  id: string,
  role: Role,
  actor: string,
): Promise<ControlAppend[] | ApiError> {
  const administrators = await lockAdministrators(client);
  const member = await loadMember(client, id);
  if (member.role === role) return [];
  if (isLast(administrators, id)) return new ApiError('last_administrator');
  await setRole(client, id, role);
  const others = withdrawals(await deleteLinksMadeBy(client, id), actor);
  return [
    ...others,
    {
      event: { type: 'member.role_changed', member: id, account: member.account, role, actor },
      version: member.version + 1,
    },
  ];
}

/** Removes a member: ends their sessions and links, and erases their email and password. */
export async function removeMember(
  control: Control,
  client: Client,
  id: string,
): Promise<Changed | ApiError> {
  const appends = await removalAppends(client, id, control.actor);
  return appends instanceof ApiError ? appends : appendAll(control, appends);
}

/** Erases the rows of a removed member. @returns the events to append, the removal itself last. */
export async function removalAppends(
  client: Client,
  id: string,
  actor: string,
): Promise<ControlAppend[] | ApiError> {
  const administrators = await lockAdministrators(client);
  const member = await loadMember(client, id);
  if (isLast(administrators, id)) return new ApiError('last_administrator');
  const ended = await deleteSessions(client, id, null);
  const withdrawn = await deleteLinksMadeBy(client, id);
  await eraseMember(client, id);
  return [
    ...sessionClosedAppends(ended, member, actor),
    ...withdrawals(withdrawn, actor),
    {
      event: { type: 'member.removed', member: id, account: member.account, actor },
      version: member.version + 1,
    },
  ];
}

/**
 * Sets a password; revokes reset links and ends all sessions but `keep`.
 * @returns the events to append, the change itself last.
 */
export async function setPassword(
  actor: string,
  client: Client,
  id: string,
  passwordHash: string,
  keep: string | null,
): Promise<ControlAppend[]> {
  const member = await loadMember(client, id);
  await setPasswordHash(client, id, passwordHash);
  await deleteLinks(client, 'reset', id);
  const ended = await deleteSessions(client, id, keep);
  const event = { type: 'member.password_changed' as const, member: id, account: member.account, actor };
  return [...sessionClosedAppends(ended, member, actor), { event, version: member.version + 1 }];
}

/** Turns two-factor authentication on or off; `write` changes the row. */
export async function changeTotp(
  control: Control,
  client: Client,
  id: string,
  enabled: boolean,
  write: () => Promise<void>,
): Promise<Changed> {
  const member = await loadMember(client, id);
  await write();
  return append(control, member, {
    type: 'member.totp_changed',
    member: id,
    account: member.account,
    enabled,
    actor: control.actor,
  });
}

/**
 * Creates a password reset link and revokes earlier ones.
 * @param by the administrator who creates it, checked again here; null: the command line.
 * @param dropCode turns off two-factor authentication, if it is on.
 */
export async function makeResetLink(
  control: Control,
  client: Client,
  id: string,
  { origin, by, dropCode }: { origin: string; by: string | null; dropCode?: (() => Promise<void>) | null },
): Promise<{ position: number; done: Link & Change } | ApiError> {
  if (by !== null && !(await lockAdministrators(client)).some((each) => each.id === by))
    return new ApiError('insufficient_role');
  const { account, version } = await loadMember(client, id);
  await dropCode?.();
  await deleteLinks(client, 'reset', id);
  const link = await makeLink(client, origin, { kind: 'reset', member: id }, by);
  const about = { member: id, account, actor: control.actor };
  const made = { type: 'member.reset_link_created' as const, ...about };
  const events: ControlEvent[] = [
    ...(dropCode ? [{ type: 'member.totp_changed' as const, ...about, enabled: false }] : []),
    made,
  ];
  const position = await control.append(
    events.map((event, index) => ({ event, version: version + 1 + index })),
  );
  return { position, done: { ...link, event: { type: made.type, position } } };
}

/** The events that revoke unused invitations. */
function withdrawals(invitations: readonly string[], actor: string): ControlAppend[] {
  return invitations.map((invitation) => ({
    event: { type: 'invitation.revoked', invitation, actor },
    version: 2,
  }));
}

const append = (control: Control, member: Member, event: ControlEvent): Promise<Changed> =>
  appendAll(control, [{ event, version: member.version + 1 }]);

/** @param appends the change itself last; empty: nothing changed. */
async function appendAll(control: Control, appends: readonly ControlAppend[]): Promise<Changed> {
  const last = appends.at(-1);
  if (last === undefined) return UNCHANGED;
  const position = await control.append(appends);
  return { position, done: { event: { type: last.event.type, position } } };
}
