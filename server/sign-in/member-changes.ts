import type { Client } from 'pg';
import type { Role } from '#db/event-parts.ts';
import type { ControlEvent } from '#db/events.ts';
import { evolveMember, type Member } from '#db/fold/member.ts';
import { deleteLinks } from '#db/links.ts';
import type { ControlAppend } from '#db/log/append.ts';
import { readStream } from '#db/log/read.ts';
import { eraseMember, lockAdministrators, setPasswordHash, setRole } from '#db/members.ts';
import { deleteSessions } from '#db/sessions.ts';
import type { Control } from '#server/control.ts';
import type { Change } from '#server/dashboard/contract-keys.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { Refusal } from '#server/errors.ts';
import { closings } from '#server/sign-in/sessions.ts';

/** Changes of members, each within a transaction: the rows, and the events that tell of them. */

export type Changed = { position: number | null; done: Change };
const UNCHANGED: Changed = { position: null, done: { event: null } };

/** A member as the log has them now. @throws {DecisionError} where there is none. */
export async function loadMember(client: Client, id: string): Promise<Member> {
  let member: Member | undefined;
  for (const { event, at } of await readStream(client, `member/${id}`)) member = evolveMember(member, event, at);
  if (member?.state !== 'active') throw new DecisionError('not_found', 'There is no such member.');
  return member;
}

/** Gives a member another role, unless they are the last administrator. */
export async function changeRole(control: Control, client: Client, id: string, role: Role): Promise<Changed | Refusal> {
  const administrators = await lockAdministrators(client);
  const member = await loadMember(client, id);
  if (member.role === role) return UNCHANGED;
  if (administrators.length === 1 && administrators[0] === id) return new Refusal('last_administrator');
  await setRole(client, id, role);
  return append(control, member, { type: 'member.role_changed', member: id, account: member.account, role, actor: control.actor });
}

/** Takes a member away: their sessions end, and what they signed in with is erased. */
export async function removeMember(control: Control, client: Client, id: string): Promise<Changed | Refusal> {
  const administrators = await lockAdministrators(client);
  const member = await loadMember(client, id);
  if (administrators.length === 1 && administrators[0] === id) return new Refusal('last_administrator');
  const ended = await deleteSessions(client, id, null);
  await eraseMember(client, id);
  return append(control, member, { type: 'member.removed', member: id, account: member.account, actor: control.actor }, closings(ended, member, control.actor));
}

/** Sets a password: reset links end, and all sessions but `keep`. */
export async function changePassword(control: Control, client: Client, id: string, passwordHash: string, keep: string | null): Promise<Changed> {
  const member = await loadMember(client, id);
  await setPasswordHash(client, id, passwordHash);
  await deleteLinks(client, 'reset', id);
  const ended = await deleteSessions(client, id, keep);
  return append(control, member, { type: 'member.password_changed', member: id, account: member.account, actor: control.actor }, closings(ended, member, control.actor));
}

/** Tells whether signing in takes a code from here on; `write` has changed the row. */
export async function changeTotp(control: Control, client: Client, id: string, enabled: boolean, write: () => Promise<void>): Promise<Changed> {
  const member = await loadMember(client, id);
  await write();
  return append(control, member, { type: 'member.totp_changed', member: id, account: member.account, enabled, actor: control.actor });
}

async function append(control: Control, member: Member, event: ControlEvent, others: readonly ControlAppend[] = []): Promise<Changed> {
  const position = await control.append([...others, { event, version: member.version + 1 }]);
  return { position, done: { event: { type: event.type, position } } };
}
