import { PackageError } from '#server/providers/bridge/package.ts';
import type { Redactor } from '#server/wire/redactor.ts';
import { UnsupportedField } from '#server/providers/bridge/fields.ts';

/**
 * What an upstream of the convention would have done for an error of a package. `refused`: it would
 * have answered with this status and error object. `broken`: its connection would have failed so.
 */
export type MappedError =
  | { kind: 'refused'; status: number; retryAfter: string | null; error: ErrorObject }
  | { kind: 'broken'; error: Error };

export type ErrorObject = { message: string; type: string; param: string | null; code: string | null };

const MESSAGE_CHARACTERS_MAX = 1_000;
/** Errors within errors, at most. */
const CAUSES_MAX = 8;

/**
 * The AI SDK's names of errors that are not the provider's: the request can't be said to it, or the
 * configuration is wrong.
 */
const STATUSES: Record<string, number> = {
  AI_UnsupportedFunctionalityError: 400,
  AI_InvalidPromptError: 400,
  AI_InvalidArgumentError: 400,
  AI_NoSuchModelError: 404,
  AI_LoadAPIKeyError: 401,
  AI_LoadSettingError: 401,
};

/** Google judges a wrong credential with the status of a wrong request. */
const WRONG_CREDENTIAL = /\bAPI_KEY_INVALID\b/;

/**
 * Reads an error that a package has thrown or put into its stream. Pure.
 * @param redactor removes the values of the credential from messages.
 */
export function mapError(error: unknown, redactor: Redactor): MappedError {
  if (error instanceof UnsupportedField)
    return refused(400, null, {
      message: error.message,
      type: 'invalid_request_error',
      param: error.param,
      code: 'invalid_value',
    });
  if (error instanceof PackageError)
    return refused(502, null, {
      message: error.message,
      type: 'server_error',
      param: null,
      code: error.code,
    });
  const { name, statusCode, responseHeaders, responseBody } = asRecord(error);
  const own = typeof name === 'string' ? STATUSES[name] : undefined;
  // A success that can't be read is a connection that has failed.
  const isStatus =
    typeof statusCode === 'number' && Number.isInteger(statusCode) && statusCode >= 300 && statusCode <= 599;
  if (own === undefined && !isStatus) return { kind: 'broken', error: innermost(error) };
  const reported = own ?? (statusCode as number);
  const status =
    reported === 400 && typeof responseBody === 'string' && WRONG_CREDENTIAL.test(responseBody)
      ? 401
      : reported;
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  return refused(status, retryAfterOf(asRecord(responseHeaders)), {
    message: messageOf(error, redactor),
    type,
    param: null,
    code: null,
  });
}

/** The error object for an error that comes after the head. */
export function errorInBand(error: unknown, redactor: Redactor): ErrorObject {
  return { message: messageOf(error, redactor), type: 'server_error', param: null, code: 'upstream_error' };
}

function refused(status: number, retryAfter: string | null, error: ErrorObject): MappedError {
  return { kind: 'refused', status, retryAfter, error };
}

/** A provider's message, without its whole reply, credentials and addresses. */
function messageOf(error: unknown, redactor: Redactor): string {
  const { message, name, responseBody, url } = asRecord(error);
  const fallback = 'The model provider failed.';
  // Parse errors quote their input, which is the reply.
  if (typeof message !== 'string' || message === '' || READING.has(name as string)) return fallback;
  if (typeof responseBody === 'string' && responseBody.trim() !== '' && message.includes(responseBody.trim()))
    return fallback;
  const host = typeof url === 'string' ? (URL.parse(url)?.hostname ?? '') : '';
  const reported = redactor.errorText(message.slice(0, 4 * MESSAGE_CHARACTERS_MAX));
  const withoutHost = host === '' ? reported : reported.replaceAll(host, '[address]');
  return withoutHost.slice(0, MESSAGE_CHARACTERS_MAX);
}

const READING = new Set([
  'AI_JSONParseError',
  'AI_TypeValidationError',
  'AI_InvalidResponseDataError',
  'ZodError',
]);

function retryAfterOf(headers: Record<string, unknown>): string | null {
  const seconds = headers['retry-after'];
  if (typeof seconds === 'string' && /^\d{1,6}$/.test(seconds)) return seconds;
  const ms = headers['retry-after-ms'];
  return typeof ms === 'string' && /^\d{1,9}(?:\.\d+)?$/.test(ms)
    ? String(Math.ceil(Number(ms) / 1_000))
    : null;
}

/**
 * Packages wrap the error that `fetch` threw. The caller needs the connection's own error, which has a
 * code; errors without a code may quote the reply, and are not passed on.
 */
function innermost(error: unknown): Error {
  let at = error;
  for (let depth = 0; depth < CAUSES_MAX && at instanceof Error; depth++, at = at.cause) {
    if (typeof (at as NodeJS.ErrnoException).code === 'string') return at;
  }
  return new Error('the provider or its package failed');
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
