import { ApiError } from '#server/errors/api-error.ts';
import { valueOf } from '#server/wire/json.ts';
import { type ParsedRequest, type RequestParser, createParser } from '#server/wire/request-parser.ts';

/** How requests of the routes beside chat completions are read. Pure. */

const readCompletion = createParser({
  prompt: { name: 'prompt', forms: ['string', 'array'] },
  usage: 'asked',
  limits: ['max_tokens'],
  choices: ['n', 'best_of'],
});
const RESPONSES_REFERENCES = ['previous_response_id', 'conversation'];
const MESSAGES_REFERENCES = ['thread', 'container'];
const ITEM_REFERENCE = '"item_reference"';

const readResponse = createParser({
  // The prompt may be in a template, or be the conversation so far.
  prompt: { name: 'input', forms: ['string', 'array'], isOptional: true },
  usage: 'always',
  limits: ['max_output_tokens'],
  choices: [],
  besides: ['background', 'store', ...RESPONSES_REFERENCES],
});

/** Each of several prompts gets as many choices as are asked for. */
export function parseCompletion(body: Buffer): ParsedRequest | ApiError {
  const asked = readCompletion(body);
  return asked instanceof ApiError ? asked : { ...asked, choices: asked.choices * promptCount(body, asked) };
}

export const parseEmbeddings: RequestParser = createParser({
  prompt: { name: 'input', forms: ['string', 'array'] },
  usage: 'never',
  limits: [],
  choices: [],
});

export const parseModeration: RequestParser = parseEmbeddings;

/** Its documents count as the prompt; providers read the query once more with each of them. */
export const parseRerank: RequestParser = createParser({
  prompt: { name: 'documents', forms: ['array'] },
  usage: 'never',
  limits: [],
  choices: [],
});

const readImageGeneration = createParser({
  prompt: { name: 'prompt', forms: ['string'] },
  usage: 'asked',
  limits: [],
  makesImages: true,
  choices: ['n'],
});

export function parseImageGeneration(body: Buffer): ParsedRequest | ApiError {
  const asked = readImageGeneration(body);
  if (asked instanceof ApiError) return asked;
  if (asked.sse)
    return new ApiError('invalid_value', {
      message: 'Images are not streamed here. Leave out "stream".',
      param: 'stream',
    });
  return { ...asked, makesImages: true };
}

export function parseResponse(body: Buffer): ParsedRequest | ApiError {
  const asked = readResponse(body);
  if (asked instanceof ApiError) return asked;
  const background = asked.scanned.members.get('background');
  const isBackground = (background && valueOf(body, background)) ?? false;
  if (typeof isBackground !== 'boolean')
    return new ApiError('invalid_value', {
      message: 'The field "background" must be true or false.',
      param: 'background',
    });
  asked.isBackground = isBackground;
  const store = asked.scanned.members.get('store');
  asked.isStored = !store || valueOf(body, store) !== false;
  if (hasAny(body, asked, RESPONSES_REFERENCES) || body.includes(ITEM_REFERENCE)) asked.storage = 'refers';
  else if (asked.isStored) asked.storage = 'kept';
  const previous = asked.scanned.members.get('previous_response_id');
  const id = previous && valueOf(body, previous);
  if (typeof id === 'string') asked.previousResponse = id;
  return asked;
}

const readMessage = createParser({
  prompt: { name: 'messages', forms: ['array'] },
  usage: 'always',
  limits: ['max_tokens'],
  choices: [],
  besides: MESSAGES_REFERENCES,
});

/** A thread that is created and a container are referred to by later requests. */
export function parseMessage(body: Buffer): ParsedRequest | ApiError {
  const asked = readMessage(body);
  if (!(asked instanceof ApiError) && hasAny(body, asked, MESSAGES_REFERENCES)) asked.storage = 'refers';
  return asked;
}

/** Whether one of these members has a value. */
function hasAny(body: Buffer, { scanned }: ParsedRequest, names: readonly string[]): boolean {
  return names.some((name) => {
    const span = scanned.members.get(name);
    return span !== undefined && valueOf(body, span) !== null;
  });
}

/** A list of texts, or of lists of tokens, is as many prompts; a list of tokens is one. */
function promptCount(body: Buffer, { scanned }: ParsedRequest): number {
  const span = scanned.members.get('prompt');
  if (!span || body[span.start] !== OPEN_BRACKET) return 1;
  const prompts = valueOf(body, span) as unknown[];
  return typeof prompts[0] === 'number' ? 1 : Math.max(1, prompts.length);
}

const OPEN_BRACKET = 0x5b;
