import type { ApiError } from '#server/errors/api-error.ts';

/** The format of errors on a route: each protocol's clients read only their own. */
export type ErrorFormat = {
  /** The body of a reply that is an error. */
  body(refusal: ApiError, requestId: string): string;
  /**
   * The last event of a streamed reply that breaks off.
   * @param eventsBefore how many have gone before it, where that is known.
   */
  event(refusal: ApiError, requestId: string, eventsBefore: number): string;
};

/** The convention's own: `{"error":{"message","type","param","code"}}`. */
export const OPENAI_ERRORS: ErrorFormat = {
  body: (refusal, requestId) => refusal.body(requestId),
  event: (refusal, requestId) => `data: ${refusal.body(requestId)}\n\n`,
};

/**
 * The Responses API formats errors as OpenAI does elsewhere, and in a stream as an event of that name. Some
 * of its clients read the error's members from the event itself, others from an object in it.
 */
export const RESPONSES_ERRORS: ErrorFormat = {
  body: OPENAI_ERRORS.body,
  event(refusal, requestId, eventsBefore) {
    const { code, message, param } = refusal;
    const members = JSON.stringify({
      type: 'error',
      sequence_number: eventsBefore,
      code,
      message,
      param,
    }).slice(0, -1);
    return `event: error\ndata: ${members},"error":${refusal.errorJson()},"request_id":"${requestId}"}\n\n`;
  },
};
