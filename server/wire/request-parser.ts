import type { UsageSource } from '#db/events/endings.ts';
import type { Usage } from '#db/money.ts';
import type { Unit, UnitCounts } from '#db/pricing/parts.ts';
import { MODEL_NAME } from '#db/events/parts.ts';
import { CHOICES_MAX } from '#server/wire/bounds.ts';
import { ATTRIBUTION_MEMBERS } from '#server/attribution/sources.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { JsonError, scanObject, type ScannedObject, type Span, valueOf } from '#server/wire/json.ts';
import { countParts, NO_PARTS, type PromptParts } from '#server/wire/prompt-parts.ts';

/** What the relay needs to know of a request; all else passes untouched. */
export type ParsedRequest = {
  model: string;
  sse: boolean;
  /** Whether a streamed reply reports its usage to the client: requested, or always so in its protocol. */
  includeUsage: boolean;
  /** The client's own limit on the reply, in tokens; null when it set none. */
  completionLimit: number | null;
  /** How many choices it asks for; each may be as long as the limit. */
  choices: number;
  /** Whether each choice is an image. */
  makesImages?: boolean;
  /** Whether the provider stores the reply for later requests, or the request refers to stored content. */
  storage?: 'kept' | 'refers';
  /** The id of the stored response that it continues. */
  previousResponse?: string;
  /** Whether the reply is one that the provider stores under its id. */
  isStored?: boolean;
  /** Whether the provider goes on with the reply when its client has left. */
  isBackground?: boolean;
  /** Where its body is a form: the boundary, and the place of the model's name. */
  form?: { boundary: string; model: Span };
  /** Its size, where that isn't the size of its body. */
  sized?: StatedSize;
  /** Replies beside JSON and events: a text, which is read whole, or audio, which is relayed as it comes. */
  replies?: 'text' | 'audio';
  scanned: ScannedRequest;
};

/** What one pass over a request's body finds. */
export type ScannedRequest = ScannedObject & { parts: Readonly<PromptParts> };

/** The size of a request whose body is not the text of its prompt. */
export type StatedSize = {
  /** The likely tokens of its prompt. */
  promptTokens: number;
  /** Units with a price of their own. */
  units: UnitCounts;
  /**
   * The usage where the provider reports none.
   * @param priced the units that its model has a price for.
   * @param outputTokens as far as they were counted.
   */
  unreported(priced: readonly Unit[], outputTokens: number): { usage: Usage; source: UsageSource };
};

/** The fields that are read of the requests of a route. */
export type RouteSchema = {
  /** The member that holds the prompt, and how it may be written. */
  prompt: { name: string; forms: readonly ('array' | 'string')[]; isOptional?: true };
  /**
   * `always`: the protocol has no stream options, and reports usage unasked. `never`: no reply is streamed.
   */
  usage: 'asked' | 'always' | 'never';
  /**
   * Where the client's own limit on the reply may stand; the first that does counts. None: nothing is
   * written, or the reply is images.
   */
  limits: readonly string[];
  makesImages?: true;
  /** Members that ask for several choices; the most of them counts. */
  choices: readonly string[];
  /** Members that the route looks at by itself. */
  besides?: readonly string[];
};

const CHAT: RouteSchema = {
  prompt: { name: 'messages', forms: ['array'] },
  usage: 'asked',
  limits: ['max_completion_tokens', 'max_tokens'],
  choices: ['n'],
};

/** Reads a request's body. Only what the relay uses is checked; the upstream judges the rest. */
export type RequestParser = (body: Buffer) => ParsedRequest | ApiError;

/** Makes what reads the requests of a route. */
export function createParser(reading: RouteSchema): RequestParser {
  const { prompt, usage, limits, choices, besides = [] } = reading;
  const names = [
    'model',
    prompt.name,
    'stream',
    ...(usage === 'asked' ? ['stream_options'] : []),
    ...limits,
    ...choices,
    ...besides,
  ];
  return (body) => parse(body, reading, names);
}

export const parseChatCompletion = createParser(CHAT);

function parse(
  body: Buffer,
  { prompt, usage, limits, choices, makesImages }: RouteSchema,
  names: readonly string[],
): ParsedRequest | ApiError {
  const scanned = scanRequest(body, names);
  if (scanned instanceof ApiError) return scanned;
  const member = (name: string): unknown => {
    const span = scanned.members.get(name);
    return span && valueOf(body, span);
  };

  const model = member('model');
  if (model === undefined) return missing('model');
  if (typeof model !== 'string' || model === '') return wrongType('model', 'a string that is not empty');
  const given = scanned.members.get(prompt.name);
  if (!given && !prompt.isOptional) return missing(prompt.name);
  if (given && !prompt.forms.some((form) => body[given.start] === FORM_BEGINNINGS[form])) {
    return wrongType(prompt.name, prompt.forms.map((form) => FORM_WORDS[form]).join(' or '));
  }
  const stream = member('stream') ?? null;
  if (stream !== null && typeof stream !== 'boolean') return wrongType('stream', 'true or false');
  const asksUsage = usage === 'asked' ? askedUsage(member('stream_options') ?? null) : true;
  if (asksUsage instanceof ApiError) return asksUsage;
  let completionLimit: number | null = limits.length === 0 && !makesImages ? 0 : null;
  for (const name of limits) {
    const limit = member(name) ?? null;
    if (limit === null) continue;
    if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 0)
      return wrongType(name, 'a whole number');
    completionLimit ??= limit;
  }
  let most = 1;
  for (const name of choices) {
    const count = member(name) ?? 1;
    if (typeof count !== 'number' || !Number.isInteger(count) || count < 1 || count > CHOICES_MAX) {
      return wrongType(name, `a whole number from 1 to ${CHOICES_MAX}`);
    }
    most = Math.max(most, count);
  }

  // The name goes into the log as it is, so it must be plain; no upstream has one that is not.
  if (!MODEL_NAME.test(model)) return new ApiError('model_not_found', { param: 'model' });
  return {
    model,
    sse: stream === true && usage !== 'never',
    includeUsage: asksUsage,
    completionLimit,
    choices: most,
    scanned,
  };
}

/** Members that ask for units with a price of their own, see call-units.ts. */
const UNIT_MEMBERS = [
  'tools',
  'max_tool_calls',
  'web_search_options',
  'search_parameters',
  'plugins',
] as const;
const MEMBERS_OF_EACH = [...ATTRIBUTION_MEMBERS, ...UNIT_MEMBERS];

/** Finds the members of a request's body that its route reads, and those of its attribution and units. */
export function scanRequest(body: Buffer, names: readonly string[]): ScannedRequest | ApiError {
  const parts = { ...NO_PARTS };
  try {
    return { ...scanObject(body, names, MEMBERS_OF_EACH, countParts(parts)), parts };
  } catch (error) {
    if (error instanceof JsonError) return errorOfJson(error);
    throw error;
  }
}

const FORM_BEGINNINGS = { array: 0x5b, string: 0x22 };
const FORM_WORDS = { array: 'an array', string: 'a string' };

function askedUsage(options: unknown): boolean | ApiError {
  if (typeof options !== 'object' || Array.isArray(options)) return wrongType('stream_options', 'an object');
  const includeUsage = (options && 'include_usage' in options ? options.include_usage : null) ?? null;
  if (includeUsage !== null && typeof includeUsage !== 'boolean')
    return wrongType('stream_options.include_usage', 'true or false');
  return includeUsage === true;
}

function missing(param: string): ApiError {
  return new ApiError('missing_required_parameter', { message: `The field "${param}" is missing.`, param });
}

function wrongType(param: string, expected: string): ApiError {
  return new ApiError('invalid_value', { message: `The field "${param}" must be ${expected}.`, param });
}

/** The error of a body that is not an object of JSON. */
export function errorOfJson(error: JsonError): ApiError {
  switch (error.problem) {
    case 'invalid':
      return new ApiError('invalid_json', { message: `The body is not valid JSON: ${error.message}.` });
    case 'not_an_object':
      return new ApiError('invalid_json', { message: 'The body must be a JSON object.' });
    case 'too_deep':
      return new ApiError('nested_too_deeply');
    case 'duplicate':
      return new ApiError('duplicate_parameter', {
        message: `The field "${error.member}" occurs twice in the body, so its value is not certain.`,
        ...(error.member === null ? {} : { param: error.member }),
      });
  }
}
