import { z } from 'zod';
import {
  Id,
  PlanName,
  REGISTRATION_POLICIES,
  type RegistrationPolicy,
  type Role,
  RoleName,
} from '#db/events/parts.ts';
import type { Change } from '#server/contract/keys.ts';
import { Email } from '#server/contract/session.ts';

/**
 * One in `GET /api/v1/members`, a list: members of the own account or, for administrators and auditors, of
 * all accounts or of `?account=`. `rows_omitted` counts older rows beyond the limit. Auditors get null for
 * emails.
 */
export type MemberRow = {
  id: string;
  email: string | null;
  account: string;
  account_name: string;
  role: Role;
  has_totp: boolean;
  created_at: string;
  last_seen_at: string | null;
};
/** `PATCH /api/v1/members/:member`. 409 `last_administrator` if no other administrator exists. */
export const ChangeMember = z.strictObject({ role: RoleName });
/** `DELETE /api/v1/members/:member`: erases the email and password, and ends all sessions. */
/** `POST /api/v1/members/:member/reset`: creates a password reset link → {@link CreatedLink}. */

/**
 * One in `GET /api/v1/invitations`, a list of open invitations. `rows_omitted` counts older rows beyond the
 * limit.
 */
export type InvitationRow = {
  id: string;
  account: string | null;
  account_name: string | null;
  role: Role;
  created_at: string;
  expires_at: string;
};
/**
 * `POST /api/v1/invitations` → {@link CreatedLink}. Emailed if SMTP is configured; the link is always in the
 * reply.
 */
export const CreateInvitation = z.strictObject({
  account: Id.nullable(),
  role: RoleName,
  email: Email.optional(),
});
/** `DELETE /api/v1/invitations/:invitation` */
/** The link is shown once, in this reply. */
export type CreatedLink = Change & {
  object: 'link';
  id: string;
  link: string;
  expires_at: string;
  email_sent: boolean;
};

/** `GET /api/v1/registration` and `PUT` of the same. */
export type RegistrationSettings = {
  object: 'registration';
  policy: RegistrationPolicy;
  plan: string | null;
};
/** `open` requires a plan. */
export const PutRegistration = z.strictObject({
  policy: z.enum(REGISTRATION_POLICIES),
  plan: PlanName.nullable(),
});
