import { z } from 'zod';
import {
  IdentityProviderTerms,
  PASSWORD_POLICIES,
  ProviderName,
} from '#db/events/identity/identity-events.ts';
import { ChangeReply } from '#server/contract/parts.ts';
import { Id, PlanName, REGISTRATION_POLICIES, RoleName } from '#db/events/parts.ts';
import { Email } from '#server/contract/session.ts';

/**
 * One in `GET /api/v1/members`, a list: members of the own account or, for administrators and auditors, of
 * all accounts or of `?account=`. `rows_omitted` counts older rows beyond the limit. Auditors get null for
 * emails.
 */
export const MemberRow = z.object({
  id: z.string(),
  email: z.string().nullable(),
  account: z.string(),
  account_name: z.string(),
  role: RoleName,
  has_totp: z.boolean(),
  created_at: z.string(),
  last_seen_at: z.string().nullable(),
});
export type MemberRow = z.infer<typeof MemberRow>;
/** Query of `GET /api/v1/members`. */
export const MembersQuery = z.object({ account: z.string().optional() });
/** `PATCH /api/v1/members/:member`. 409 `last_administrator` if no other administrator exists. */
export const ChangeMember = z.strictObject({ role: RoleName });
/** `DELETE /api/v1/members/:member`: erases the email and password, and ends all sessions. */
/** `POST /api/v1/members/:member/reset`: creates a password reset link → {@link CreatedLink}. */

/**
 * One in `GET /api/v1/invitations`, a list of open invitations. `rows_omitted` counts older rows beyond the
 * limit.
 */
export const InvitationRow = z.object({
  id: z.string(),
  account: z.string().nullable(),
  account_name: z.string().nullable(),
  role: RoleName,
  created_at: z.string(),
  expires_at: z.string(),
});
export type InvitationRow = z.infer<typeof InvitationRow>;
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
export const CreatedLink = z.object({
  ...ChangeReply.shape,
  object: z.literal('link'),
  id: z.string(),
  link: z.string(),
  expires_at: z.string(),
  email_sent: z.boolean(),
});
export type CreatedLink = z.infer<typeof CreatedLink>;

/** `GET /api/v1/registration` and `PUT` of the same. */
export const RegistrationSettings = z.object({
  object: z.literal('registration'),
  policy: z.enum(REGISTRATION_POLICIES),
  plan: z.string().nullable(),
});
export type RegistrationSettings = z.infer<typeof RegistrationSettings>;
/** `open` requires a plan. */
export const PutRegistration = z.strictObject({
  policy: z.enum(REGISTRATION_POLICIES),
  plan: PlanName.nullable(),
});

/** One in `GET /api/v1/identity-providers`, a list. The client secret is never returned. */
export const IdentityProviderRow = z.object({
  name: ProviderName,
  ...IdentityProviderTerms.shape,
  has_client_secret: z.boolean(),
  /** To register at the provider. */
  redirect_uri: z.string(),
});
export type IdentityProviderRow = z.infer<typeof IdentityProviderRow>;

export const CLIENT_SECRET_CHARACTERS_MAX = 1_000;
/**
 * `PUT /api/v1/identity-providers/:provider`: adds or replaces a provider. `DELETE` removes it, with the
 * identities and sessions of its members.
 */
export const PutIdentityProvider = z.strictObject({
  ...IdentityProviderTerms.shape,
  scopes: IdentityProviderTerms.shape.scopes.default(['email', 'profile']),
  groups_claim: IdentityProviderTerms.shape.groups_claim.default('groups'),
  link_by_email: z.boolean().default(false),
  session_hours: IdentityProviderTerms.shape.session_hours.default(12),
  empty_accounts: IdentityProviderTerms.shape.empty_accounts.default('keep'),
  network: IdentityProviderTerms.shape.network.default('public'),
  /** Null: the provider has none, and PKCE alone protects the code. Absent: as before. */
  client_secret: z.string().min(1).max(CLIENT_SECRET_CHARACTERS_MAX).nullable().optional(),
});
export type PutIdentityProvider = z.input<typeof PutIdentityProvider>;

/** `GET /api/v1/sign-in-settings` and `PUT` of the same. */
export const SignInSettings = z.object({
  object: z.literal('sign_in_settings'),
  /** Who may sign in with a password. Administrators always may. */
  passwords: z.enum(PASSWORD_POLICIES),
});
export type SignInSettings = z.infer<typeof SignInSettings>;
export const PutSignInSettings = z.strictObject({ passwords: z.enum(PASSWORD_POLICIES) });

export type { IdentityRule, PasswordPolicy } from '#db/events/identity/identity-events.ts';
