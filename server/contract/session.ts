import { z } from 'zod';
import { PASSWORD_POLICIES } from '#db/events/identity/identity-events.ts';
import { AccountName, REGISTRATION_POLICIES, RoleName } from '#db/events/parts.ts';

/**
 * Contract for signing in. Bodies and replies are schemas: the server checks the bodies, and the description
 * of the API is made from both. Times are ISO 8601. Pure.
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
export const Welcome = z.object({
  object: z.literal('welcome'),
  registration: z.enum(REGISTRATION_POLICIES),
  /** No administrator exists yet: the setup link on the console creates one. */
  needs_setup: z.boolean(),
  /** Whether reset links are emailed; otherwise an administrator creates them. */
  can_send_mail: z.boolean(),
  /** Identity providers, each with the path that starts a sign-in. */
  providers: z.array(z.object({ name: z.string(), label: z.string(), start_path: z.string() })),
  /** Who may sign in with a password. */
  passwords: z.enum(PASSWORD_POLICIES),
});
export type Welcome = z.infer<typeof Welcome>;

/** `GET /api/v1/me`, and the reply of `POST /api/v1/session` and every other route that signs in. */
export const Me = z.object({
  object: z.literal('me'),
  member: z.object({
    id: z.string(),
    email: z.string(),
    role: RoleName,
    has_totp: z.boolean(),
    has_password: z.boolean(),
  }),
  account: z.object({
    id: z.string(),
    name: z.string(),
    state: z.enum(['active', 'suspended']),
    plan: z.string().nullable(),
  }),
  /** The id of this session. */
  session: z.string(),
  /** The base URL for API clients; ends in `/v1`. */
  base_url: z.string(),
  /** The database's time. */
  now: z.string(),
});
export type Me = z.infer<typeof Me>;

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
export const InvitationDetail = z.object({
  object: z.literal('invitation'),
  role: RoleName,
  /** Null: the invitation creates a new account. */
  account_name: z.string().nullable(),
  expires_at: z.string(),
});
export type InvitationDetail = z.infer<typeof InvitationDetail>;
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
export const TotpEnrollment = z.object({ object: z.literal('totp'), secret: z.string(), uri: z.string() });
export type TotpEnrollment = z.infer<typeof TotpEnrollment>;
/** `PUT /api/v1/totp`: confirms enrollment with the first code. */
export const ConfirmTotp = z.strictObject({ code: Code });
/** `POST /api/v1/totp/remove` */
export const RemoveTotp = z.strictObject({ password: z.string().max(PASSWORD_CHARACTERS_MAX) });

/**
 * One in `GET /api/v1/sessions`, newest first. `DELETE /api/v1/session` signs out, `DELETE /api/v1/sessions`
 * everywhere, `DELETE /api/v1/sessions/:session` ends one session.
 */
export const SessionRow = z.object({
  id: z.string(),
  created_at: z.string(),
  last_seen_at: z.string(),
  /** The session expires then. */
  expires_at: z.string(),
  /** Browser and operating system, such as "Firefox on Linux". */
  browser: z.string(),
  /** The network that signed in, such as 192.0.2.0/24. */
  network: z.string(),
  is_current: z.boolean(),
});
export type SessionRow = z.infer<typeof SessionRow>;
