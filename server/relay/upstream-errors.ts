import type { EndReason } from '#db/events/endings.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { AttemptOptions } from '#server/relay/attempt-outcome.ts';
import type { AttemptFailure } from '#server/relay/failure.ts';
import type { ReplyHead } from '#server/relay/reply-head.ts';
import { errorReplyUsage, type ReplyUsage } from '#server/relay/reply-usage.ts';
import type { ProviderCall, ProviderError } from '#server/providers/provider.ts';
import type { Redactor } from '#server/wire/redactor.ts';

/** An upstream's error reply: the error for the client, its retry policy, and the usage that it reports. */
export function readErrorReply(
  { status, retryAfter }: Pick<ReplyHead, 'status' | 'retryAfter'>,
  bytes: Buffer,
  attempt: Pick<AttemptOptions, 'provider' | 'call' | 'size'>,
): {
  refusal: ApiError;
  reason: EndReason;
  failure: Pick<AttemptFailure, 'cause' | 'retryAfterMs'>;
  usage: ReplyUsage | null;
} {
  const { provider, call } = attempt;
  const fault = provider.parseError(bytes);
  return {
    ...apiErrorOfReply({ status, fault, retryAfter, redactor: call.redactor }),
    failure: {
      cause: lacksReference(status, fault, call) ? 'reference_not_found' : status,
      retryAfterMs: retryAfterMs(retryAfter),
    },
    usage: errorReplyUsage(status, attempt, bytes),
  };
}

/** Whether the upstream lacks the stored content that the request refers to, and another can have. */
function lacksReference(status: number, fault: ProviderError | null, { parsed }: ProviderCall): boolean {
  if (parsed.storage !== 'refers') return false;
  return status === 404 || (status === 400 && REFERENCE_PARAM.test(fault?.param ?? ''));
}

/** An upstream's reply whose status is not a success. */
export type UpstreamErrorReply = {
  status: number;
  fault: ProviderError | null;
  retryAfter: string | undefined;
  redactor: Redactor;
};

/** Statuses by which an upstream judges the client's own request; they pass with their message. */
const CLIENT_FAULTS = new Set([400, 404, 413, 415, 422]);

/** The fields by which OpenAI and Anthropic name unknown references. */
const REFERENCE_PARAM = /^(previous_response_id|conversation|thread|container|input)\b/;

const MESSAGE_CHARACTERS_MAX = 1_000;
const PARAM_CHARACTERS_MAX = 200;
/** Characters of an error that are searched for secrets. */
const ERROR_CHARACTERS_MAX = 4 * MESSAGE_CHARACTERS_MAX;
/** Longer waits put clients to sleep: some sleep the whole time without a word. */
const RETRY_AFTER_MAX_S = 60;

/**
 * Reports an upstream's error in the relay's words. An error in the client's request keeps its status
 * and message. The upstream's 401 and 403 are about the relay's own credential: passed on unchanged,
 * agents would blame the user's key. Its 429 is not the account's: a 503 that says when to retry.
 */
export function apiErrorOfReply(reply: UpstreamErrorReply): { refusal: ApiError; reason: EndReason } {
  const { status } = reply;
  const retryAfterS = retryAfterSeconds(reply.retryAfter);
  if (CLIENT_FAULTS.has(status)) {
    const { message, param } = readError(reply);
    const code =
      status === 404 ? 'model_not_found' : status === 413 ? 'request_too_large' : 'upstream_rejected';
    return {
      refusal: new ApiError(code, { message, status, ...(param === null ? {} : { param }) }),
      reason: 'upstream_rejected',
    };
  }
  if (status === 401 || status === 403)
    return { refusal: new ApiError('upstream_unauthorized'), reason: 'upstream_error' };
  // 529: Anthropic's word for being overloaded.
  if (status === 429 || status === 529)
    return { refusal: new ApiError('upstream_rate_limited', { retryAfterS }), reason: 'upstream_error' };
  if (status === 503)
    return { refusal: new ApiError('upstream_error', { status, retryAfterS }), reason: 'upstream_error' };
  if (status === 408 || status === 504)
    return { refusal: new ApiError('upstream_timeout', { retryAfterS }), reason: 'timed_out' };
  return { refusal: new ApiError('upstream_error', { retryAfterS }), reason: 'upstream_error' };
}

/**
 * How long an upstream asks to be left alone, in milliseconds; null where it does not say, or not in seconds.
 */
function retryAfterMs(header: string | undefined): number | null {
  return header === undefined || !/^\d{1,6}$/.test(header) ? null : Number(header) * 1_000;
}

function retryAfterSeconds(header: string | undefined): number | undefined {
  const ms = retryAfterMs(header);
  return ms === null ? undefined : Math.min(Math.max(ms / 1_000, 1), RETRY_AFTER_MAX_S);
}

function readError({ status, fault, redactor }: UpstreamErrorReply): {
  message: string;
  param: string | null;
} {
  if (fault === null)
    return { message: `The model provider refused the request with status ${status}.`, param: null };
  const textOf = (text: string, charactersMax: number): string =>
    redactor.errorText(text.slice(0, ERROR_CHARACTERS_MAX)).slice(0, charactersMax);
  return {
    message: textOf(fault.message, MESSAGE_CHARACTERS_MAX),
    param: fault.param === null ? null : textOf(fault.param, PARAM_CHARACTERS_MAX),
  };
}
