import type { Role } from '#db/events/parts.ts';
import type { MemberEvent } from '#db/events/subjects.ts';
import type { Stored } from '#db/fold/stored.ts';

/** A person who signs in to an account. Their address and password are not in the log. */
export type Member = {
  id: string;
  account: string;
  role: Role;
  /** A member who was removed signs in no more; the id is never used again. */
  state: 'active' | 'removed';
  /** Whether signing in takes a code from a device as well. */
  hasTotp: boolean;
  addedAt: Date;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The member after the next event of their stream; undefined where they were never added. */
export function evolveMember(member: Member | undefined, stored: Stored<MemberEvent>): Member | undefined {
  const { event, at, version } = stored;
  if (event.type === 'member.added') {
    return {
      id: event.member,
      account: event.account,
      role: event.role,
      state: 'active',
      hasTotp: false,
      addedAt: at,
      version,
    };
  }
  return member && { ...member, ...changeBy(event), version };
}

function changeBy(event: Exclude<MemberEvent, { type: 'member.added' }>): Partial<Member> {
  switch (event.type) {
    case 'member.role_changed':
      return { role: event.role };
    case 'member.removed':
      return { state: 'removed' };
    case 'member.totp_changed':
      return { hasTotp: event.enabled };
    case 'member.password_changed':
    case 'member.reset_link_created':
      return {};
  }
}
