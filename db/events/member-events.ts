import { z } from 'zod';
import { ProviderName } from '#db/events/identity/identity-events.ts';
import { Control, Id, PlanName, REGISTRATION_POLICIES, RoleName, Time } from '#db/events/parts.ts';

/**
 * Who signs in to an account. The address they sign in with, their password and their devices are in
 * ordinary tables, which can be erased; the log knows them by an id.
 */
export const MemberAdded = Control.extend({
  type: z.literal('member.added'),
  member: Id,
  account: Id,
  role: RoleName,
  /** The invitation that they came by. */
  invitation: Id.optional(),
  /** The identity provider that they first signed in through. */
  provider: ProviderName.optional(),
});
export const MemberRoleChanged = Control.extend({
  type: z.literal('member.role_changed'),
  member: Id,
  account: Id,
  role: RoleName,
});
export const MemberRemoved = Control.extend({ type: z.literal('member.removed'), member: Id, account: Id });
export const MemberPasswordChanged = Control.extend({
  type: z.literal('member.password_changed'),
  member: Id,
  account: Id,
});
/** Whether signing in takes a code from a device as well. */
export const MemberTotpChanged = Control.extend({
  type: z.literal('member.totp_changed'),
  member: Id,
  account: Id,
  enabled: z.boolean(),
});

/** An administrator made a link by which the member chooses a new password. */
export const MemberResetLinkCreated = Control.extend({
  type: z.literal('member.reset_link_created'),
  member: Id,
  account: Id,
});

export const InvitationCreated = Control.extend({
  type: z.literal('invitation.created'),
  invitation: Id,
  /** The account that they join; absent: they bring one of their own. */
  joins: Id.optional(),
  role: RoleName,
  expires_at: Time,
});
export const InvitationRevoked = Control.extend({
  type: z.literal('invitation.revoked'),
  invitation: Id,
});

export const SessionOpened = Control.extend({
  type: z.literal('session.opened'),
  session: Id,
  member: Id,
  account: Id,
});
export const SessionClosed = Control.extend({
  type: z.literal('session.closed'),
  session: Id,
  member: Id,
  account: Id,
});

export const RegistrationChanged = Control.extend({
  type: z.literal('registration.changed'),
  policy: z.enum(REGISTRATION_POLICIES),
  /** The plan that new accounts land on; null: none, which limits nothing. */
  plan: PlanName.nullable(),
});
