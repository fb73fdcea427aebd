import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import { GEMINI_ERRORS } from '#server/protocols/gemini/errors.ts';
import { geminiCountParser } from '#server/protocols/gemini/parse-request.ts';
import { geminiCountBody } from '#server/protocols/gemini/count-body.ts';
import { messagesErrorBody, messagesErrorEvent } from '#server/providers/anthropic/errors.ts';
import { VERSION_HEADER } from '#server/providers/anthropic/request.ts';
import type { CallerSpec } from '#server/access/caller-spec.ts';
import { asRecord } from '#server/wire/counts.ts';
import type { ErrorFormat } from '#server/wire/error-format.ts';
import type { Body } from '#server/wire/read-body.ts';
import type { ParsedRequest, RequestParser } from '#server/wire/request-parser.ts';
import { parseMessage } from '#server/wire/route-parsers.ts';
import { bodyForUpstream } from '#server/wire/splice-body.ts';
import type { UpstreamRequest } from '#server/upstreams/connection-pool.ts';
import type { CountedProtocol } from '#server/upstreams/protocol-binding.ts';

/** A request as an upstream takes it. */
type CountRequest = Pick<UpstreamRequest, 'path' | 'body' | 'headers' | 'isOwn'>;

/** How a protocol counts the tokens of a request. Pure. */
export type CountSpec = CallerSpec & {
  protocol: CountedProtocol;
  parse: RequestParser;
  errorFormat: ErrorFormat;
  /** Headers of the client's that are passed on. */
  protocolHeaders: readonly string[];
  /** The request to an upstream that counts, by its name of the model. */
  request(body: Body, parsed: ParsedRequest, model: string, headers: readonly string[]): CountRequest;
  /** The number in an upstream's reply; null: it states none. */
  read(reply: unknown): number | null;
  /** A reply with an estimate. */
  write(tokens: number): object;
};

/** The count of a member; null: it isn't one. */
function countIn(reply: unknown, name: string): number | null {
  const value = asRecord(reply)?.[name];
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** `POST /v1/messages/count_tokens`. */
export const MESSAGES_COUNT: CountSpec = {
  route: '/v1/messages',
  apiKeyHeader: 'x-api-key',
  protocol: 'messages',
  parse: parseMessage,
  errorFormat: { body: messagesErrorBody, event: messagesErrorEvent },
  protocolHeaders: ['anthropic-version', 'anthropic-beta'],
  request: (body, parsed, model, headers) => ({
    path: '/v1/messages/count_tokens',
    body: bodyForUpstream(body, parsed, { model, tokenLimit: null, tokenLimitMember: 'max_tokens' }),
    headers: headers.includes('anthropic-version') ? headers : [...VERSION_HEADER, ...headers],
  }),
  read: (reply) => countIn(reply, 'input_tokens'),
  write: (tokens) => ({ input_tokens: tokens }),
};

/** Gemini's `countTokens`, of calls that are chat completions here. */
export const geminiCount = (model: string): CountSpec => ({
  route: CHAT_COMPLETIONS,
  apiKeyHeader: 'x-goog-api-key',
  protocol: 'gemini',
  parse: geminiCountParser(model),
  errorFormat: GEMINI_ERRORS,
  protocolHeaders: [],
  request: ({ bytes }, _parsed, name) => ({
    path: `/models/${encodeURIComponent(name)}:countTokens`,
    body: geminiCountBody(bytes, name),
    isOwn: true,
  }),
  read: (reply) => countIn(reply, 'totalTokens'),
  write: (tokens) => ({ totalTokens: tokens }),
});
