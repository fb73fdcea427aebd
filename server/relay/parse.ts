import { MODEL_NAME } from '#db/event-parts.ts';
import { CHOICES_MAX } from '#server/bounds.ts';
import { Refusal } from '#server/errors.ts';
import { JsonError, scanObject, type ScannedObject, valueOf } from '#server/relay/json.ts';

/** What the relay needs to know of a chat-completion request; all else passes untouched. */
export type Asked = {
  model: string;
  sse: boolean;
  /** Whether the client itself asked for usage in a streamed reply. */
  asksUsage: boolean;
  /** The client's own limit on the reply, in tokens; null when it set none. */
  completionLimit: number | null;
  /** How many choices it asks for; each may be as long as the limit. */
  choices: number;
  scanned: ScannedObject;
};

const MEMBERS = ['model', 'messages', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'n'];

/** Reads a request body. Only what the relay uses is checked; the upstream judges the rest. */
export function parseChat(body: Buffer): Asked | Refusal {
  let scanned: ScannedObject;
  try {
    scanned = scanObject(body, MEMBERS);
  } catch (error) {
    if (error instanceof JsonError) return refusalOf(error);
    throw error;
  }
  const member = (name: string): unknown => {
    const span = scanned.members.get(name);
    return span && valueOf(body, span);
  };

  const model = member('model');
  if (model === undefined) return new Refusal('missing_field', { message: 'The field "model" is missing.', param: 'model' });
  if (typeof model !== 'string' || model === '') return wrongType('model', 'a string that is not empty');
  const messages = scanned.members.get('messages');
  if (!messages) return new Refusal('missing_field', { message: 'The field "messages" is missing.', param: 'messages' });
  if (body[messages.start] !== 0x5b) return wrongType('messages', 'an array');
  const stream = member('stream') ?? null;
  if (stream !== null && typeof stream !== 'boolean') return wrongType('stream', 'true or false');
  const options = member('stream_options') ?? null;
  if (typeof options !== 'object' || Array.isArray(options)) return wrongType('stream_options', 'an object');
  const includeUsage = (options && 'include_usage' in options ? options.include_usage : null) ?? null;
  if (includeUsage !== null && typeof includeUsage !== 'boolean') {
    return wrongType('stream_options.include_usage', 'true or false');
  }
  let completionLimit: number | null = null;
  for (const name of ['max_completion_tokens', 'max_tokens']) {
    const limit = member(name) ?? null;
    if (limit === null) continue;
    if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 0) return wrongType(name, 'a whole number');
    completionLimit ??= limit;
  }

  const choices = member('n') ?? 1;
  if (typeof choices !== 'number' || !Number.isInteger(choices) || choices < 1 || choices > CHOICES_MAX) {
    return wrongType('n', `a whole number from 1 to ${CHOICES_MAX}`);
  }

  // The name goes into the log as it is, so it must be plain; no upstream has one that is not.
  if (!MODEL_NAME.test(model)) return new Refusal('model_not_found', { param: 'model' });
  return { model, sse: stream === true, asksUsage: includeUsage === true, completionLimit, choices, scanned };
}

function wrongType(param: string, expected: string): Refusal {
  return new Refusal('invalid_value', { message: `The field "${param}" must be ${expected}.`, param });
}

function refusalOf(error: JsonError): Refusal {
  switch (error.problem) {
    case 'invalid':
      return new Refusal('invalid_json', { message: `The body is not valid JSON: ${error.message}.` });
    case 'not_an_object':
      return new Refusal('invalid_json', { message: 'The body must be a JSON object.' });
    case 'too_deep':
      return new Refusal('nested_too_deeply');
    case 'duplicate':
      return new Refusal('duplicate_field', {
        message: `The field "${error.member}" occurs twice in the body, so its value is not certain.`,
        ...(error.member === null ? {} : { param: error.member }),
      });
  }
}
