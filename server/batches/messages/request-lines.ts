import { type InputLine, type LineErrors, refuseInBatch } from '#server/batches/input-line.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { MESSAGES } from '#server/relay/routes.ts';
import { JsonError, scanObject, skipBlank, skipValue, type Span, valueOf } from '#server/wire/json.ts';

/** The requests of a message batch. Pure. */

const CUSTOM_ID = /^[a-zA-Z0-9_-]{1,64}$/;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** How errors name a request: by its place in the list, from 0 as Anthropic does. */
export const REQUEST_LINES: LineErrors = {
  of: (number, what) =>
    new ApiError('invalid_value', { message: `requests.${number - 1} ${what}.`, param: 'requests' }),
  from: (number, { code, message, status, limit }) =>
    new ApiError(code, {
      message: `requests.${number - 1}: ${message}`,
      status,
      param: 'requests',
      ...(limit === null ? {} : { limit }),
    }),
};

/** The elements of a list in a body that is valid JSON; none where it is no list. */
export function* elementsOf(body: Buffer, { start }: Span): Generator<Buffer> {
  if (body[start] !== OPEN_BRACKET) return;
  let at = skipBlank(body, start + 1);
  while (body[at] !== CLOSE_BRACKET) {
    const end = skipValue(body, at, 0);
    yield body.subarray(at, end);
    at = skipBlank(body, end);
    if (body[at] === COMMA) at = skipBlank(body, at + 1);
  }
}

/** @param number of the request, from 1. */
export function readRequestLine(bytes: Buffer, number: number): InputLine | ApiError {
  try {
    const { members } = scanObject(bytes, ['custom_id', 'params']);
    const id = members.get('custom_id');
    const customId = id && valueOf(bytes, id);
    if (typeof customId !== 'string' || !CUSTOM_ID.test(customId))
      return REQUEST_LINES.of(number, 'has no "custom_id", 1 to 64 letters, digits, "_" and "-"');
    const params = members.get('params');
    if (!params) return REQUEST_LINES.of(number, 'has no "params"');
    const body = bytes.subarray(params.start, params.end);
    const { route, parse } = MESSAGES;
    const parsed = typeof parse === 'function' ? parse(body) : new ApiError('route_not_found');
    if (parsed instanceof ApiError) return REQUEST_LINES.from(number, parsed);
    const refused = refuseInBatch(parsed);
    return refused === null ? { customId, route, body, parsed } : REQUEST_LINES.of(number, refused);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return REQUEST_LINES.of(number, `is not a JSON object: ${error.message}`);
  }
}
