import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import type { CallerSpec } from '#server/access/caller-spec.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { type FormSpec, IMAGE_FORM, RECORDING } from '#server/media/form-requests.ts';
import { parseSpeech } from '#server/media/speech-request.ts';
import { EMBEDDING_METHODS, geminiEmbeddingParser } from '#server/protocols/gemini/embeddings.ts';
import { GEMINI_ERRORS } from '#server/protocols/gemini/errors.ts';
import { geminiParser } from '#server/protocols/gemini/parse-request.ts';
import { messagesErrorBody, messagesErrorEvent } from '#server/providers/anthropic/errors.ts';
import { type CountSpec, geminiCount, MESSAGES_COUNT } from '#server/counting/count-specs.ts';
import { OPENAI_ERRORS, type ErrorFormat, RESPONSES_ERRORS } from '#server/wire/error-format.ts';
import { type RequestParser, parseChatCompletion } from '#server/wire/request-parser.ts';
import {
  parseCompletion,
  parseEmbeddings,
  parseImageGeneration,
  parseMessage,
  parseModeration,
  parseRerank,
  parseResponse,
} from '#server/wire/route-parsers.ts';

/** A relayed route, as far as it differs from the others. */
export type RelayedSpec = CallerSpec & {
  /** Reads the requests: their JSON, or the form that they are. */
  parse: RequestParser | FormSpec;
  /** The format of errors for its clients, at every stage. */
  errorFormat: ErrorFormat;
  /** Where its clients look for the id of their request, beside `x-request-id`. */
  requestIdHeader?: string;
  /** The client's protocol where it isn't that of the route. */
  protocol?: 'gemini';
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
  apiKeyHeader: 'x-api-key',
  protocolHeaders: ['anthropic-version', 'anthropic-beta'],
};

export const RESPONSES: RelayedSpec & { parse: RequestParser } = {
  route: '/v1/responses',
  parse: parseResponse,
  errorFormat: RESPONSES_ERRORS,
};

const SPECS: readonly RelayedSpec[] = [
  CHAT,
  { route: '/v1/completions', parse: parseCompletion, errorFormat: OPENAI_ERRORS },
  { route: '/v1/embeddings', parse: parseEmbeddings, errorFormat: OPENAI_ERRORS },
  RESPONSES,
  MESSAGES,
  { route: '/v1/moderations', parse: parseModeration, errorFormat: OPENAI_ERRORS },
  { route: '/v1/rerank', parse: parseRerank, errorFormat: OPENAI_ERRORS },
  { route: '/v1/images/generations', parse: parseImageGeneration, errorFormat: OPENAI_ERRORS },
  { route: '/v1/images/edits', parse: IMAGE_FORM, errorFormat: OPENAI_ERRORS },
  { route: '/v1/images/variations', parse: IMAGE_FORM, errorFormat: OPENAI_ERRORS },
  { route: '/v1/audio/transcriptions', parse: RECORDING, errorFormat: OPENAI_ERRORS },
  { route: '/v1/audio/translations', parse: RECORDING, errorFormat: OPENAI_ERRORS },
  { route: '/v1/audio/speech', parse: parseSpeech, errorFormat: OPENAI_ERRORS },
];

/** Relayed routes by path. */
export const RELAYED: ReadonlyMap<string, RelayedSpec> = new Map(SPECS.map((spec) => [spec.route, spec]));

/** Google's SDKs call its stable API from their third versions on, and earlier ones the beta. */
const GEMINI_CALL =
  /^\/v1(?:beta)?\/models\/(.+):(generateContent|streamGenerateContent|embedContent|batchEmbedContents)$/;
/** Counts of tokens, which are requests of their own: see server/counting/. */
const COUNT_CALL = /^\/v1(?:beta)?\/models\/(.+):countTokens$/;
export const COUNT_TOKENS = `${MESSAGES.route}/count_tokens`;
/** Whether a path is one of Gemini's API. */
export const isGemini = (path: string): boolean =>
  path.startsWith('/v1beta/') || GEMINI_CALL.test(path) || COUNT_CALL.test(path);

/**
 * The relayed route of a POST request.
 * @param url with the query, which Gemini's clients state the form of a stream in.
 * @returns undefined: the path is not relayed.
 */
export function relayedSpec(path: string, url: string): RelayedSpec | ApiError | undefined {
  return RELAYED.get(path) ?? geminiSpec(path, url);
}

/** A call of Gemini's API: a chat completion or embeddings in another protocol, whose path has the model. */
function geminiSpec(path: string, url: string): RelayedSpec | ApiError | undefined {
  const [, name, method] = GEMINI_CALL.exec(path) ?? [];
  if (name === undefined) return undefined;
  const misplaced = keyInAddress(url);
  if (misplaced) return misplaced;
  const shared = { errorFormat: GEMINI_ERRORS, apiKeyHeader: 'x-goog-api-key', protocol: 'gemini' } as const;
  const embedding = EMBEDDING_METHODS.find((each) => each === method);
  if (embedding !== undefined)
    return { ...shared, route: '/v1/embeddings', parse: geminiEmbeddingParser(decoded(name), embedding) };
  const parameters = queryOf(url);
  const isStreamed = method === 'streamGenerateContent';
  if (isStreamed && parameters.get('alt') !== 'sse')
    return new ApiError('invalid_value', {
      message: 'A stream is sent as server-sent events here. Add "alt=sse" to the query.',
      param: 'alt',
    });
  return { ...shared, route: CHAT_COMPLETIONS, parse: geminiParser(decoded(name), isStreamed) };
}

/**
 * The route of a POST request that counts tokens.
 * @returns undefined: it is another one.
 */
export function countSpec(path: string, url: string): CountSpec | ApiError | undefined {
  if (path === COUNT_TOKENS) return MESSAGES_COUNT;
  const [, name] = COUNT_CALL.exec(path) ?? [];
  if (name === undefined) return undefined;
  return keyInAddress(url) ?? geminiCount(decoded(name));
}

const queryOf = (url: string): URLSearchParams => new URLSearchParams(url.split('?', 2)[1]);

/** The error of a key in the query, where Google's older clients send it; null: it isn't there. */
export function keyInAddress(url: string): ApiError | null {
  if (!queryOf(url).has('key')) return null;
  return new ApiError('invalid_value', {
    message: 'A key in the address is written into logs. Send it in the header "x-goog-api-key" instead.',
    param: 'key',
  });
}

/** A name that is not well encoded is left as it is, and found nowhere. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The format of errors for a path, relayed or not: paths below a route have the same clients. */
export function errorFormatOf(path: string): Pick<RelayedSpec, 'errorFormat' | 'requestIdHeader'> {
  const spec = RELAYED.get(path);
  if (spec) return spec;
  if (isGemini(path)) return { errorFormat: GEMINI_ERRORS };
  return path.startsWith(`${MESSAGES.route}/`) ? MESSAGES : CHAT;
}
