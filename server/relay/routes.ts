import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits/limits.ts';
import { messagesErrorBody, messagesErrorEvent } from '#server/providers/anthropic/errors.ts';
import { OPENAI_ERRORS, type ErrorFormat, RESPONSES_ERRORS } from '#server/wire/error-format.ts';
import { type RequestParser, parseChatCompletion } from '#server/wire/request-parser.ts';
import { parseCompletion, parseEmbeddings, parseMessage, parseResponse } from '#server/wire/route-parsers.ts';

/** A relayed route, as far as it differs from the others. */
export type RelayedSpec = {
  route: RelayedRoute;
  parse: RequestParser;
  /** The format of errors for its clients, at every stage. */
  errorFormat: ErrorFormat;
  /** Where its clients look for the id of their request, beside `x-request-id`. */
  requestIdHeader?: string;
  /** Whether the key may come as `x-api-key`, as clients of this protocol send it. */
  takesApiKey?: true;
  /** Headers of the protocol: they are passed on to an upstream with this protocol, and no others are. */
  protocolHeaders?: readonly string[];
};

export const CHAT: RelayedSpec = {
  route: CHAT_COMPLETIONS,
  parse: parseChatCompletion,
  errorFormat: OPENAI_ERRORS,
};

export const MESSAGES: RelayedSpec = {
  route: '/v1/messages',
  parse: parseMessage,
  errorFormat: { body: messagesErrorBody, event: messagesErrorEvent },
  requestIdHeader: 'request-id',
  takesApiKey: true,
  protocolHeaders: ['anthropic-version', 'anthropic-beta'],
};

const SPECS: readonly RelayedSpec[] = [
  CHAT,
  { route: '/v1/completions', parse: parseCompletion, errorFormat: OPENAI_ERRORS },
  { route: '/v1/embeddings', parse: parseEmbeddings, errorFormat: OPENAI_ERRORS },
  { route: '/v1/responses', parse: parseResponse, errorFormat: RESPONSES_ERRORS },
  MESSAGES,
];

/** Relayed routes by path. */
export const RELAYED: ReadonlyMap<string, RelayedSpec> = new Map(SPECS.map((spec) => [spec.route, spec]));

/** The format of errors for a path, relayed or not: paths below a route have the same clients. */
export function errorFormatOf(path: string): Pick<RelayedSpec, 'errorFormat' | 'requestIdHeader'> {
  return RELAYED.get(path) ?? (path.startsWith(`${MESSAGES.route}/`) ? MESSAGES : CHAT);
}
