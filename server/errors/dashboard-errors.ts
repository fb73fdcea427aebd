import type { ErrorSpec } from '#server/errors/api-errors.ts';

/**
 * Errors that only the dashboard API returns, in the shape of the public API's. The page branches on the
 * codes; messages are for people.
 */
export const DASHBOARD_ERRORS = {
  unauthenticated: {
    status: 401,
    type: 'authentication_error',
    message: "You aren't signed in, or your session has expired. Sign in and try again.",
  },
  invalid_credentials: {
    status: 401,
    type: 'authentication_error',
    message: 'Incorrect email or password.',
  },
  totp_required: {
    status: 401,
    type: 'authentication_error',
    message: 'Two-factor authentication is on for this account. Enter the code from your authenticator app.',
  },
  invalid_totp_code: {
    status: 401,
    type: 'authentication_error',
    message:
      'This code is incorrect or has expired. Enter the newest code, ' +
      "and check that your device's clock is right.",
  },

  invalid_management_key: {
    status: 401,
    type: 'authentication_error',
    message:
      'This is not a valid management key. Send one as "Authorization: Bearer dbm_…"; ' +
      "API keys (dbk_…) can't manage anything.",
  },
  management_key_expired: {
    status: 401,
    type: 'authentication_error',
    message: 'This management key has expired. Create a new one.',
  },
  management_key_revoked: {
    status: 401,
    type: 'authentication_error',
    message: 'This management key was revoked. Create a new one.',
  },

  password_sign_in_off: {
    status: 403,
    type: 'permission_error',
    message: 'Passwords are off for you. Sign in through your identity provider.',
  },
  provider_unavailable: {
    status: 502,
    type: 'server_error',
    message: "The identity provider can't be reached, or its metadata is invalid. Try again later.",
    retryAfterS: 10,
  },
  provider_denied: {
    status: 403,
    type: 'permission_error',
    message: 'The identity provider did not sign you in. Try again, or ask its administrator.',
  },
  provider_response_invalid: {
    status: 401,
    type: 'authentication_error',
    message: "The identity provider's response failed verification. Sign in again.",
  },
  sign_in_expired: {
    status: 401,
    type: 'authentication_error',
    message: 'This sign-in took too long, or began in another browser. Sign in again.',
  },
  no_matching_rule: {
    status: 403,
    type: 'permission_error',
    message: 'None of your groups has access. Ask an administrator.',
  },
  email_required: {
    status: 403,
    type: 'permission_error',
    message: 'The identity provider sent no verified email for you. Ask its administrator.',
  },
  email_in_use: {
    status: 409,
    type: 'invalid_request_error',
    message: 'Another member has your email. Ask an administrator.',
  },

  insufficient_scope: {
    status: 403,
    type: 'permission_error',
    message: "This management key's scopes don't include this. Create one that has the scope.",
  },
  cross_site_request: {
    status: 403,
    type: 'permission_error',
    message: 'This request came from another site, so it was blocked. Open the dashboard and try again.',
  },
  insufficient_role: {
    status: 403,
    type: 'permission_error',
    message: "Your role doesn't have permission to do this. Ask an administrator.",
  },
  registration_closed: {
    status: 403,
    type: 'permission_error',
    message: 'Registration is closed. Ask an administrator for an invitation.',
  },

  not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: "Not found: it doesn't exist, or you don't have access to it.",
  },
  invalid_link: {
    status: 404,
    type: 'invalid_request_error',
    message: 'This link has already been used, has expired, or was revoked. Ask for a new one.',
  },

  already_exists: {
    status: 409,
    type: 'invalid_request_error',
    message: 'This name is already in use. Choose another.',
  },
  already_done: {
    status: 409,
    type: 'invalid_request_error',
    message: "This request was already carried out, and its response can't be shown again.",
  },
  not_allowed: {
    status: 409,
    type: 'invalid_request_error',
    message: "This operation isn't allowed in the current state. Reload the page and check.",
  },
  last_administrator: {
    status: 409,
    type: 'invalid_request_error',
    message:
      'This is the last administrator with a password. ' +
      'Make another member with a password an administrator first.',
  },
  version_conflict: {
    status: 409,
    type: 'invalid_request_error',
    message: 'This was changed by someone else at the same time. Reload and try again.',
  },

  precondition_failed: {
    status: 412,
    type: 'invalid_request_error',
    message: 'The object has another ETag than If-Match names. Read it again, and decide on that version.',
  },

  too_many_attempts: {
    status: 429,
    type: 'rate_limit_error',
    message: 'Too many attempts. Wait before you try again.',
    retryAfterS: 60,
  },
} as const satisfies Record<string, ErrorSpec>;
