import type { RelayedRoute } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { RELAYED } from '#server/relay/routes.ts';
import { JsonError, scanObject, valueOf } from '#server/wire/json.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';

/** A line of a batch's input file: a request. Pure. */
export type InputLine = {
  customId: string;
  route: RelayedRoute;
  body: Buffer;
  parsed: ParsedRequest;
};

/** The routes whose requests batches have. */
export const BATCH_ROUTES: readonly RelayedRoute[] = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/moderations',
  '/v1/images/generations',
];
export const isBatchRoute = (text: unknown): text is RelayedRoute =>
  (BATCH_ROUTES as readonly unknown[]).includes(text);

/** How errors name a line. */
export type LineErrors = {
  /** @param what its error is, as the rest of a sentence. */
  of(number: number, what: string): ApiError;
  /** An error of a request as one of its line. */
  from(number: number, refusal: ApiError): ApiError;
};

const CUSTOM_ID_CHARACTERS_MAX = 512;

/** @param number of the line, from 1. */
export function readInputLine(bytes: Buffer, number: number): InputLine | ApiError {
  try {
    const { members } = scanObject(bytes, ['custom_id', 'method', 'url', 'body']);
    const value = (name: string): unknown => {
      const span = members.get(name);
      return span && valueOf(bytes, span);
    };
    const customId = value('custom_id');
    if (typeof customId !== 'string' || customId === '' || customId.length > CUSTOM_ID_CHARACTERS_MAX)
      return lineError(number, 'has no "custom_id", a text of 1 to 512 characters');
    if (value('method') !== 'POST') return lineError(number, 'must have the "method" "POST"');
    const url = value('url');
    if (!isBatchRoute(url)) return lineError(number, `must have a "url" among ${BATCH_ROUTES.join(', ')}`);
    const span = members.get('body');
    if (!span) return lineError(number, 'has no "body"');
    const body = bytes.subarray(span.start, span.end);
    const parse = RELAYED.get(url)?.parse;
    const parsed = typeof parse === 'function' ? parse(body) : new ApiError('route_not_found');
    if (parsed instanceof ApiError) return ofLine(number, parsed);
    const refused = refuseInBatch(parsed);
    return refused === null ? { customId, route: url, body, parsed } : lineError(number, refused);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return lineError(number, `is not a JSON object: ${error.message}`);
  }
}

/** What a request can't have in a batch. */
export function refuseInBatch({ sse, isBackground, previousResponse }: ParsedRequest): string | null {
  if (sse) return "asks for a stream, which batches don't have";
  if (isBackground === true) return 'has "background", which batches don\'t have';
  // It would be continued whichever account has made it.
  return previousResponse === undefined ? null : 'has "previous_response_id", which batches don\'t have here';
}

export const lineError = (number: number, what: string): ApiError =>
  new ApiError('invalid_value', { message: `Line ${number} of the file ${what}.`, param: 'input_file_id' });

/** An error of a request as one of its line. */
export const ofLine = (number: number, { code, message, status, limit }: ApiError): ApiError =>
  new ApiError(code, {
    message: `Line ${number} of the file: ${message}`,
    status,
    param: 'input_file_id',
    ...(limit === null ? {} : { limit }),
  });

export const FILE_LINES: LineErrors = { of: lineError, from: ofLine };
