import { z } from 'zod';
import type { RegistrationPolicy, Role } from '#db/events/parts.ts';
import { AccountName } from '#db/events/parts.ts';

/**
 * Contract for signing in. Request bodies are schemas, which the server checks; replies are types. Times are
 * ISO 8601. Pure.
 */

/** Stored in lower case; used only if SMTP is configured. */
export const Email = z
  .string()
  .trim()
  .toLowerCase()
  .max(254)
  .regex(/^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u, 'must be an email address');
/**
 * Forbids control characters in new names. The event schemas accept old names, such as those with a NUL,
 * which no table can store.
 */
export const withoutControls = (name: z.ZodString): z.ZodString =>
  name.regex(/^\P{Cc}*$/u, 'must have no control characters');
export const NewAccountName = withoutControls(AccountName);
/** Length matters more than symbols. The upper bound keeps hashing cheap. */
export const PASSWORD_CHARACTERS_MIN = 10;
export const PASSWORD_CHARACTERS_MAX = 200;
export const Password = z
  .string()
  .min(PASSWORD_CHARACTERS_MIN, `must have at least ${PASSWORD_CHARACTERS_MIN} characters`)
  .max(PASSWORD_CHARACTERS_MAX, `must have at most ${PASSWORD_CHARACTERS_MAX} characters`);
const Code = z.string().regex(/^\d{6}$/, 'must be the six digits of your authenticator app');
/**
 * The secret of a setup, invitation or reset link. It is in the URL fragment, which browsers send to no
 * server.
 */
const LinkSecret = z.string().regex(/^[0-9A-Za-z]{43}$/, 'must be the secret of the link');

/** `GET /api/v1/welcome`: public information for the sign-in page. */
export type Welcome = {
  object: 'welcome';
  registration: RegistrationPolicy;
  /** No administrator exists yet: the setup link on the console creates one. */
  needs_setup: boolean;
  /** Whether reset links are emailed; otherwise an administrator creates them. */
  can_send_mail: boolean;
};

/** `GET /api/v1/me`, and the reply of `POST /api/v1/session` and every other route that signs in. */
export type Me = {
  object: 'me';
  member: { id: string; email: string; role: Role; has_totp: boolean };
  account: { id: string; name: string; state: 'active' | 'suspended'; plan: string | null };
  /** The id of this session. */
  session: string;
  /** The base URL for API clients; ends in `/v1`. */
  base_url: string;
  /** The database's time. */
  now: string;
};

/**
 * `POST /api/v1/session`. 401 `invalid_credentials`; 401 `totp_required` if two-factor authentication is on.
 */
export const SignIn = z.strictObject({
  email: Email,
  password: z.string().max(PASSWORD_CHARACTERS_MAX),
  code: Code.optional(),
});
/**
 * `POST /api/v1/registration`. Always 202 `{object: 'registration'}`, whether the email was free or taken;
 * the owner of the email signs in next.
 */
export const Register = z.strictObject({
  email: Email,
  password: Password,
  account_name: NewAccountName,
  invitation: LinkSecret.optional(),
});
/** `POST /api/v1/setup`: creates the first administrator; signs in. */
export const SetUp = z.strictObject({
  secret: LinkSecret,
  email: Email,
  password: Password,
  account_name: NewAccountName.optional(),
});
/** `POST /api/v1/invitation`: details of an invitation. Its secret is in the body, not in the URL. */
export const ReadInvitation = z.strictObject({ secret: LinkSecret });
export type InvitationDetail = {
  object: 'invitation';
  role: Role;
  /** Null: the invitation creates a new account. */ account_name: string | null;
  expires_at: string;
};
/** `POST /api/v1/invitation/accept`: joins the account of an invitation; signs in. */
export const AcceptInvitation = z.strictObject({
  secret: LinkSecret,
  email: Email,
  password: Password,
  account_name: NewAccountName.optional(),
});
/** `POST /api/v1/password/forgotten`. Always 202. */
export const ForgotPassword = z.strictObject({ email: Email });
/** `POST /api/v1/password/reset`: ends all sessions of the member; signs in. */
export const ResetPassword = z.strictObject({ secret: LinkSecret, password: Password });
/** `POST /api/v1/password`: ends all other sessions. */
export const ChangePassword = z.strictObject({
  current: z.string().max(PASSWORD_CHARACTERS_MAX),
  password: Password,
});

/** `POST /api/v1/totp`: starts enrollment, which takes effect when a code confirms it. */
export const StartTotp = z.strictObject({ password: z.string().max(PASSWORD_CHARACTERS_MAX) });
/** `uri` is for the QR code of an authenticator app. Shown once. */
export type TotpEnrollment = { object: 'totp'; secret: string; uri: string };
/** `PUT /api/v1/totp`: confirms enrollment with the first code. */
export const ConfirmTotp = z.strictObject({ code: Code });
/** `POST /api/v1/totp/remove` */
export const RemoveTotp = z.strictObject({ password: z.string().max(PASSWORD_CHARACTERS_MAX) });

/**
 * One in `GET /api/v1/sessions`, newest first. `DELETE /api/v1/session` signs out, `DELETE /api/v1/sessions`
 * everywhere, `DELETE /api/v1/sessions/:session` ends one session.
 */
export type SessionRow = {
  id: string;
  created_at: string;
  last_seen_at: string;
  /** The session expires then. */
  expires_at: string;
  /** Browser and operating system, such as "Firefox on Linux". */
  browser: string;
  /** The network that signed in, such as 192.0.2.0/24. */
  network: string;
  is_current: boolean;
};
