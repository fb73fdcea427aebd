import { z } from 'zod';
import type { RegistrationPolicy, Role } from '#db/events/parts.ts';
import { AccountName } from '#db/events/parts.ts';

/**
 * What the dashboard and the server say to one another about signing in. Bodies are schemas, which
 * the server checks; replies are types. Times are ISO 8601. Paths stand above each. Pure.
 */

/** Kept in lower case; nothing is ever sent to it unless SMTP is set up. */
export const Email = z
  .string()
  .trim()
  .toLowerCase()
  .max(254)
  .regex(/^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u, 'must be an e-mail address');
/**
 * Adds to what a name must be. The vocabulary of events takes what was written before, such as a NUL, which
 * no table can hold.
 */
export const withoutControls = (name: z.ZodString): z.ZodString =>
  name.regex(/^\P{Cc}*$/u, 'must have no control characters');
export const NewAccountName = withoutControls(AccountName);
/** Long rather than full of signs. The upper bound keeps hashing cheap. */
export const PASSWORD_CHARACTERS_MIN = 10;
export const PASSWORD_CHARACTERS_MAX = 200;
export const Password = z
  .string()
  .min(PASSWORD_CHARACTERS_MIN, `must have at least ${PASSWORD_CHARACTERS_MIN} characters`)
  .max(PASSWORD_CHARACTERS_MAX, `must have at most ${PASSWORD_CHARACTERS_MAX} characters`);
const Code = z.string().regex(/^\d{6}$/, 'must be the six digits that your device shows');
/**
 * The secret part of a link: setup, invitation, reset. It is in the link's fragment, which no server sees.
 */
const LinkSecret = z.string().regex(/^[0-9A-Za-z]{43}$/, 'must be the one from the link');

/** `GET /api/welcome`: what anybody may know before signing in. */
export type Welcome = {
  object: 'welcome';
  registration: RegistrationPolicy;
  /** No administrator is there yet: the setup link, which the console showed, makes one. */
  needs_setup: boolean;
  /** Whether a reset link can be sent; otherwise an administrator makes one. */
  can_send_mail: boolean;
};

/** `GET /api/me`; what `POST /api/session` and all that signs in reply as well. */
export type Me = {
  object: 'me';
  member: { id: string; email: string; role: Role; has_totp: boolean };
  account: { id: string; name: string; state: 'active' | 'suspended'; plan: string | null };
  /** The session that asks. */
  session: string;
  /** What clients set as their base URL; ends in `/v1`. */
  base_url: string;
  /** By Postgres' clock. */
  now: string;
};

/** `POST /api/session`. 401 `invalid_credentials`; 401 `totp_required` where a code is wanted as well. */
export const SignIn = z.strictObject({
  email: Email,
  password: z.string().max(PASSWORD_CHARACTERS_MAX),
  code: Code.optional(),
});
/**
 * `POST /api/registration`. Always 202 `{object: 'registration'}`, whether the address was free or not:
 * whoever it belongs to signs in next.
 */
export const Register = z.strictObject({
  email: Email,
  password: Password,
  account_name: NewAccountName,
  invitation: LinkSecret.optional(),
});
/** `POST /api/setup`: the first administrator. Signs in. */
export const SetUp = z.strictObject({
  secret: LinkSecret,
  email: Email,
  password: Password,
  account_name: NewAccountName.optional(),
});
/** `POST /api/invitation`: what an invitation is for; its token is a secret, and so in the body. */
export const ReadInvitation = z.strictObject({ secret: LinkSecret });
export type InvitationDetail = {
  object: 'invitation';
  role: Role;
  /** Null: one of their own. */ account_name: string | null;
  expires_at: string;
};
/** `POST /api/invitation/accept`: joins the account of an invitation. Signs in. */
export const AcceptInvitation = z.strictObject({
  secret: LinkSecret,
  email: Email,
  password: Password,
  account_name: NewAccountName.optional(),
});
/** `POST /api/password/forgotten`. Always 202. */
export const ForgotPassword = z.strictObject({ email: Email });
/** `POST /api/password/reset`. Ends all sessions of the member, and signs in. */
export const ResetPassword = z.strictObject({ secret: LinkSecret, password: Password });
/** `POST /api/password`. Ends all other sessions. */
export const ChangePassword = z.strictObject({
  current: z.string().max(PASSWORD_CHARACTERS_MAX),
  password: Password,
});

/** `POST /api/totp`: begins; nothing changes before the code is confirmed. */
export const StartTotp = z.strictObject({ password: z.string().max(PASSWORD_CHARACTERS_MAX) });
/** `uri` is what a device reads as a QR code. Shown once. */
export type TotpEnrollment = { object: 'totp'; secret: string; uri: string };
/** `PUT /api/totp`: confirms with the first code. */
export const ConfirmTotp = z.strictObject({ code: Code });
/** `POST /api/totp/remove` */
export const RemoveTotp = z.strictObject({ password: z.string().max(PASSWORD_CHARACTERS_MAX) });

/**
 * `GET /api/sessions` → a list of these, the newest first. `DELETE /api/session` signs out, `DELETE
 * /api/sessions` everywhere, `DELETE /api/sessions/:session` one.
 */
export type SessionRow = {
  id: string;
  created_at: string;
  last_seen_at: string;
  /** Signs out by itself then. */
  expires_at: string;
  /** A browser and system in a few words, such as "Firefox on Linux". */
  browser: string;
  /** The coarse network it was opened from, such as 192.0.2.0/24. */
  network: string;
  is_current: boolean;
};
