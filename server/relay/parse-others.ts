import { Refusal } from '#server/errors.ts';
import { valueOf } from '#server/relay/json.ts';
import { type Asked, parse, type Reading } from '#server/relay/parse.ts';

/** How requests of the routes beside chat completions are read. Pure. */

const COMPLETION: Reading = { prompt: { name: 'prompt', forms: ['string', 'array'] }, usage: 'asked', limits: ['max_tokens'], choices: ['n', 'best_of'] };
const EMBEDDINGS: Reading = { prompt: { name: 'input', forms: ['string', 'array'] }, usage: 'never', limits: [], choices: [] };
const RESPONSE: Reading = {
  // What is asked may stand in a template, or be what was said before.
  prompt: { name: 'input', forms: ['string', 'array'], isOptional: true },
  usage: 'always',
  limits: ['max_output_tokens'],
  choices: [],
  elsewhere: ['previous_response_id', 'conversation', 'prompt'],
  besides: ['background'],
};
const MESSAGE: Reading = { prompt: { name: 'messages', forms: ['array'] }, usage: 'always', limits: ['max_tokens'], choices: [] };

/** Each of several prompts gets as many choices as are asked for. */
export function parseCompletion(body: Buffer): Asked | Refusal {
  const asked = parse(body, COMPLETION);
  return asked instanceof Refusal ? asked : { ...asked, choices: asked.choices * promptCount(body, asked) };
}

export const parseEmbeddings = (body: Buffer): Asked | Refusal => parse(body, EMBEDDINGS);

/** One that runs in the background ends when nobody listens, so that nobody would know what it used. */
export function parseResponse(body: Buffer): Asked | Refusal {
  const asked = parse(body, RESPONSE);
  if (asked instanceof Refusal) return asked;
  const background = asked.scanned.members.get('background');
  if (background && valueOf(body, background) !== false && valueOf(body, background) !== null) {
    return new Refusal('invalid_value', { message: 'The field "background" must be false here: what a response uses in the background can\'t be known. Ask for it with "stream": true instead.', param: 'background' });
  }
  return asked;
}

export const parseMessage = (body: Buffer): Asked | Refusal => parse(body, MESSAGE);

/** A list of texts, or of lists of tokens, is as many prompts; a list of tokens is one. */
function promptCount(body: Buffer, { scanned }: Asked): number {
  const span = scanned.members.get('prompt');
  if (!span || body[span.start] !== OPEN_BRACKET) return 1;
  const prompts = valueOf(body, span) as unknown[];
  return typeof prompts[0] === 'number' ? 1 : Math.max(1, prompts.length);
}

const OPEN_BRACKET = 0x5b;
