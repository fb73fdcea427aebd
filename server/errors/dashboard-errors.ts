import type { ErrorSpec } from '#server/errors/api-errors.ts';

/** What the dashboard refuses besides, in the same shape. The codes are all that the page decides by. */
export const DASHBOARD_ERRORS = {
  not_signed_in: {
    status: 401,
    type: 'authentication_error',
    message: 'You are not signed in, or your session has ended. Sign in and try again.',
  },
  wrong_credentials: {
    status: 401,
    type: 'authentication_error',
    message: 'This e-mail address and password do not go together.',
  },
  totp_required: {
    status: 401,
    type: 'authentication_error',
    message: 'This account asks for a code from your device as well.',
  },
  wrong_code: {
    status: 401,
    type: 'authentication_error',
    message: 'This code is not the right one now. Wait for the next one, and check the clock of your device.',
  },

  cross_site: {
    status: 403,
    type: 'permission_error',
    message: 'This request comes from another site, so it was not carried out.',
  },
  role_not_permitted: {
    status: 403,
    type: 'permission_error',
    message: 'Your role may not do this. Ask an administrator.',
  },
  registration_closed: {
    status: 403,
    type: 'permission_error',
    message: 'Nobody can register here by themselves. Ask an administrator for an invitation.',
  },

  not_found: {
    status: 404,
    type: 'invalid_request_error',
    message: 'There is no such thing here, or it is not yours to see.',
  },
  link_not_valid: {
    status: 404,
    type: 'invalid_request_error',
    message: 'This link was used already, has expired, or was withdrawn. Ask for a new one.',
  },

  already_exists: {
    status: 409,
    type: 'invalid_request_error',
    message: 'There is one of that name already.',
  },
  already_done: {
    status: 409,
    type: 'invalid_request_error',
    message: 'This was done already, and its reply is not given twice.',
  },
  not_allowed: {
    status: 409,
    type: 'invalid_request_error',
    message: "This can't be done in the state that it is in.",
  },
  last_administrator: {
    status: 409,
    type: 'invalid_request_error',
    message: 'This is the last administrator. Make somebody else one first.',
  },
  changed_meanwhile: {
    status: 409,
    type: 'invalid_request_error',
    message: 'Somebody else changed this at the same moment. Look at it again.',
  },

  too_many_attempts: {
    status: 429,
    type: 'rate_limit_error',
    message: 'Too many attempts. Wait a while before the next one.',
    retryAfterS: 60,
  },
} as const satisfies Record<string, ErrorSpec>;
