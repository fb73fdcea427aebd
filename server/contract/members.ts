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
 * One in `GET /api/members`, a list: of the own account, or for administrators and auditors of all, narrowed
 * by `?account=`; `rows_omitted` older ones are left out. Auditors see no addresses: null.
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
/** `PATCH /api/members/:member`. The last administrator stays one: 409 `last_administrator`. */
export const ChangeMember = z.strictObject({ role: RoleName });
/** `DELETE /api/members/:member`: erases the address and password, and ends all sessions. */
/** `POST /api/members/:member/reset`: a link by which they choose a new password → `LinkMade`. */

/** One in `GET /api/invitations`, a list of those that are open; `rows_omitted` older ones are left out. */
export type InvitationRow = {
  id: string;
  account: string | null;
  account_name: string | null;
  role: Role;
  created_at: string;
  expires_at: string;
};
/**
 * `POST /api/invitations` → {@link CreatedLink}. Sent to the address where SMTP is set up; the link is shown in
 * any case.
 */
export const CreateInvitation = z.strictObject({
  account: Id.nullable(),
  role: RoleName,
  email: Email.optional(),
});
/** `DELETE /api/invitations/:invitation` */
/** The link is in this reply and nowhere else. */
export type CreatedLink = Change & {
  object: 'link';
  id: string;
  link: string;
  expires_at: string;
  email_sent: boolean;
};

/** `GET /api/registration` and `PUT` of the same. */
export type RegistrationSettings = {
  object: 'registration';
  policy: RegistrationPolicy;
  plan: string | null;
};
/** Open takes a plan. */
export const PutRegistration = z.strictObject({
  policy: z.enum(REGISTRATION_POLICIES),
  plan: PlanName.nullable(),
});
