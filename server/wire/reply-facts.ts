import { MODEL_NAME, PROVIDER_TEXT } from '#db/events/parts.ts';
import { STATED_COST_MAX_NANOUSD } from '#server/wire/bounds.ts';
import type { Redactor } from '#server/wire/redactor.ts';

/** What a reply states about itself besides its usage; null: it doesn't. Pure. */
export type ReplyFacts = {
  answeredModel: string | null;
  /** In the provider's own words. */
  finishReason: string | null;
  serviceTier: string | null;
  /** The id of the reply, or of the request where a header has one. */
  providerRequest: string | null;
  /** The cost that the provider states, in nano-dollars. */
  statedCost: number | null;
};

export const NO_FACTS: Readonly<ReplyFacts> = {
  answeredModel: null,
  finishReason: null,
  serviceTier: null,
  providerRequest: null,
  statedCost: null,
};

/** What the head of a reply states. */
export type HeadFacts = {
  /** The provider's id of the request. */
  requestId: string | null;
  /** The id of an edge in front of the provider, which only its support can resolve. */
  edgeId: string | null;
  /** The id of the reply where it isn't the provider's but ours. */
  generatedId: string | null;
  statedCost: number | null;
};

/** Headers with the provider's id of a request, the first that is set counts. */
export const REQUEST_ID_HEADERS = [
  'x-request-id',
  'request-id',
  'apim-request-id',
  'x-amzn-requestid',
] as const;
const EDGE_ID_HEADER = 'cf-ray';
/** The id that a bridge gives to a reply whose provider has none. */
export const GENERATED_ID_HEADER = 'x-daybook-generated-id';
/** LiteLLM's, in dollars. */
const COST_HEADER = 'x-litellm-response-cost';

export function headFacts(headers: Record<string, string | string[] | undefined>): HeadFacts {
  let requestId: string | null = null;
  for (const name of REQUEST_ID_HEADERS) requestId ??= providerText(headers[name]);
  const cost = headers[COST_HEADER];
  return {
    requestId,
    edgeId: providerText(headers[EDGE_ID_HEADER]),
    generatedId: providerText(headers[GENERATED_ID_HEADER]),
    statedCost: typeof cost === 'string' ? nanousdOf(cost) : null,
  };
}

/**
 * The facts of a reply and its head together. The request is known by the id of a header, else by that of the
 * reply itself, else by that of the edge. A text that contains a credential of the upstream is dropped.
 */
export function allFacts(facts: Readonly<ReplyFacts>, head: HeadFacts, redactor: Redactor): ReplyFacts {
  const free = (text: string | null): string | null =>
    text !== null && redactor.text(text) === text ? text : null;
  const ofReply = facts.providerRequest === head.generatedId ? null : facts.providerRequest;
  return {
    answeredModel: free(facts.answeredModel),
    finishReason: free(facts.finishReason),
    serviceTier: free(facts.serviceTier),
    providerRequest: free(head.requestId) ?? free(ofReply) ?? free(head.edgeId),
    statedCost: facts.statedCost ?? head.statedCost,
  };
}

/** A provider's word of its own; null: the log can't hold the value, or it is no text. */
export function providerText(value: unknown): string | null {
  return typeof value === 'string' && PROVIDER_TEXT.test(value) ? value : null;
}

/** The same for the name of a model. */
export function modelText(value: unknown): string | null {
  return typeof value === 'string' && MODEL_NAME.test(value) ? value : null;
}

const DECIMAL = /^(\d{1,20})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,2}))?$/;
const NANO_DIGITS = 9;

/**
 * An amount in dollars as nano-dollars, from its decimal text, so that no binary fraction comes between;
 * rounded half up.
 * @returns null where it is no amount, is negative, or above {@link STATED_COST_MAX_NANOUSD}.
 */
export function nanousdOf(dollars: string): number | null {
  const match = DECIMAL.exec(dollars);
  if (!match) return null;
  const [, whole = '', fraction = '', exponent = '0'] = match;
  const digits = whole + fraction;
  // The number of digits before the decimal point, once the amount is in nano-dollars.
  const point = whole.length + Number(exponent) + NANO_DIGITS;
  if (point < 0) return 0;
  const integer = digits.slice(0, point).padEnd(point, '0');
  const amount = BigInt(integer === '' ? '0' : integer) + ((digits[point] ?? '0') >= '5' ? 1n : 0n);
  return amount <= BigInt(STATED_COST_MAX_NANOUSD) ? Number(amount) : null;
}

/** The same of a number that JSON held: its shortest text is the one that was sent, up to 15 digits. */
export function nanousdOfNumber(dollars: unknown): number | null {
  return typeof dollars === 'number' ? nanousdOf(String(dollars)) : null;
}
