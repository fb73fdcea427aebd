import { ApiError } from '#server/errors/api-error.ts';
import { cutMembers } from '#server/wire/cut-members.ts';
import { JsonError, valueOf } from '#server/wire/json.ts';
import { errorOfJson } from '#server/wire/request-parser.ts';
import { STREAM_ID_CHARACTERS_MAX } from '#server/websocket/bounds.ts';

/** The messages of a client of `/v1/responses`. Pure. */

/** `response.create`: the body of a response, with what only a WebSocket has beside it. */
export type CreateMessage = {
  type: 'create';
  /** Responses with the same one run one after the other; null: the connection's own. */
  streamId: string | null;
  /** False: the conversation is only prepared for a later response. */
  isGenerated: boolean;
  /** The response that it continues. */
  previous: string | null;
  /** The input as it is written; null: it has none. */
  input: Buffer | null;
  /** All other members, as they are written. */
  rest: readonly Buffer[];
};

/** A message that can't be carried out, with the stream that it names. */
export type InvalidMessage = { type: 'invalid'; error: ApiError; streamId: string | null };

/** `ignored`: a report that needs no answer. */
export type ClientMessage = CreateMessage | InvalidMessage | { type: 'ignored' };

/** Members of the message that aren't fields of the body, and those that change on the way. */
const CUT = [
  'type',
  'stream_id',
  'generate',
  'stream',
  'background',
  'previous_response_id',
  'input',
] as const;

const STREAM_ID = new RegExp(`^[\\w.-]{1,${STREAM_ID_CHARACTERS_MAX}}$`);

export function readClientMessage(bytes: Buffer): ClientMessage {
  let streamId: string | null = null;
  const invalid = (error: ApiError): InvalidMessage => ({ type: 'invalid', error, streamId });
  try {
    const { values, rest } = cutMembers(bytes, CUT);
    const member = (name: (typeof CUT)[number]): unknown => {
      const value = values.get(name);
      return value === undefined ? null : valueOf(value, { start: 0, end: value.length });
    };
    const stream = member('stream_id');
    if (stream !== null && (typeof stream !== 'string' || !STREAM_ID.test(stream)))
      return invalid(new ApiError('invalid_stream_id', { param: 'stream_id' }));
    streamId = stream;
    const type = member('type');
    // Codex reports that it has read a response.
    if (type === 'response.processed') return { type: 'ignored' };
    if (type !== 'response.create') return invalid(UNKNOWN_TYPE);
    const generate = member('generate');
    if (generate !== null && typeof generate !== 'boolean')
      return invalid(wrongType('generate', 'true or false'));
    if ((member('background') ?? false) !== false) return invalid(NO_BACKGROUND);
    const previous = member('previous_response_id');
    if (previous !== null && typeof previous !== 'string')
      return invalid(wrongType('previous_response_id', 'a string'));
    return {
      type: 'create',
      streamId,
      isGenerated: generate !== false,
      previous,
      input: values.get('input') ?? null,
      rest,
    };
  } catch (error) {
    if (error instanceof JsonError) return invalid(errorOfJson(error));
    throw error;
  }
}

export const BINARY_MESSAGE = new ApiError('invalid_json', {
  message: 'Messages must be text: each is a JSON object. Send them as text frames.',
});
const UNKNOWN_TYPE = new ApiError('invalid_value', {
  message: 'Only messages of the type "response.create" are supported.',
  param: 'type',
});
const NO_BACKGROUND = new ApiError('invalid_value', {
  message: 'Background responses are made with POST /v1/responses. Leave out "background".',
  param: 'background',
});

const wrongType = (param: string, expected: string): ApiError =>
  new ApiError('invalid_value', { message: `The field "${param}" must be ${expected}.`, param });

/** The body of a response as `POST /v1/responses` has it, and the items of its whole input. */
export type CreateBody = { bytes: Buffer; items: Buffer };

/**
 * The body that asks for a response.
 * @param before the items of the conversation that it continues; null: the provider has them, if any.
 */
export function bodyOf({ previous, input, rest }: CreateMessage, before: Buffer | null): CreateBody {
  const items = joined([before, input && itemsOf(input)]);
  const members: (Buffer | string)[] = [...rest, '"stream":true'];
  if (before === null && previous !== null)
    members.push(`"previous_response_id":${JSON.stringify(previous)}`);
  const list: (Buffer | string)[] =
    before === null ? (input === null ? [] : [',"input":', input]) : [',"input":[', items, ']'];
  const parts = members.flatMap((member, index) => [index === 0 ? '{' : ',', member]);
  return { bytes: concat([...parts, ...list, '}']), items };
}

const QUOTE = 0x22;
const OPEN_BRACKET = 0x5b;

/** The items of an input, without the brackets of their list. A text is a message of the user. */
function itemsOf(input: Buffer): Buffer | null {
  if (input[0] === QUOTE) return concat(['{"type":"message","role":"user","content":', input, '}']);
  return input[0] === OPEN_BRACKET ? input.subarray(1, -1) : null;
}

/** Lists of items as one list. */
export function joined(lists: readonly (Buffer | null)[]): Buffer {
  const filled = lists.filter((list) => list !== null && !isBlank(list)) as Buffer[];
  return concat(filled.flatMap((list, index) => (index === 0 ? [list] : [',', list])));
}

const isBlank = (bytes: Buffer): boolean => bytes.every((byte) => byte <= 0x20);

const concat = (parts: readonly (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
