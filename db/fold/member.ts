import type { Role } from '#db/events/parts.ts';
import type { ControlEvent } from '#db/events/events.ts';

/** Somebody who signs in to an account. Their address and password are not in the log. */
export type Member = {
  id: string;
  account: string;
  role: Role;
  /** A member who was removed signs in no more; the id is never used again. */
  state: 'active' | 'removed';
  /** Whether signing in takes a code from a device as well. */
  hasTotp: boolean;
  addedAt: Date;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/**
 * The member after one more event of its own stream; events of other subjects change nothing.
 * @param at the event's time in the log.
 */
export function evolveMember(member: Member | undefined, event: ControlEvent, at: Date): Member | undefined {
  switch (event.type) {
    case 'member.added':
      return {
        id: event.member,
        account: event.account,
        role: event.role,
        state: 'active',
        hasTotp: false,
        addedAt: at,
        version: 1,
      };
    case 'member.role_changed':
      return member && { ...member, role: event.role, version: member.version + 1 };
    case 'member.removed':
      return member && { ...member, state: 'removed', version: member.version + 1 };
    case 'member.password_changed':
    case 'member.reset_link_created':
      return member && { ...member, version: member.version + 1 };
    case 'member.totp_changed':
      return member && { ...member, hasTotp: event.enabled, version: member.version + 1 };
    default:
      return member;
  }
}
