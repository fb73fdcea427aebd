import { conversationOf } from '#server/providers/anthropic/messages.ts';
import { arrayOf, elementsOf, membersOf, objectOf } from '#server/wire/raw-json.ts';
import { thinkingOf, takesSampling } from '#server/providers/anthropic/thinking.ts';
import { toolsOf } from '#server/providers/anthropic/tools.ts';
import { UnsupportedField } from '#server/providers/anthropic/unsupported-field.ts';
import type { ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/** A chat completion as a request for a message. Pure. */

export const MESSAGES_PATH = '/v1/messages';
/** The version of the protocol that all of this is written for; Anthropic has had no other since. */
export const VERSION_HEADER: readonly string[] = ['anthropic-version', '2023-06-01'];

/**
 * The limit on a reply where neither the client nor a quota sets one: Anthropic requires a limit. The
 * most that every model it still serves allows, thought included: a reply should end where it is over.
 */
export const REPLY_TOKENS_DEFAULT = 32_000;

/** Anthropic's own bounds: it refuses a higher temperature, where the convention goes up to 2. */
const TEMPERATURE_MAX = 1;

/** Stands for the convention's `json_object`, which Anthropic has no member for. */
const JSON_ONLY = 'Reply with a single JSON object and nothing else: no code fence and no words around it.';

/** Members that are translated, or that the relay has already acted on. */
const TAKEN = new Set([
  'model',
  'messages',
  'max_tokens',
  'max_completion_tokens',
  'stream',
  'stream_options',
  'stop',
  'temperature',
  'top_p',
  'top_k',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'reasoning',
  'thinking',
  'user',
  'safety_identifier',
  'metadata',
  'cache_control',
]);
/** Values that ask for nothing; leaving them out changes nothing. */
const ASKS_NOTHING: Record<string, string> = {
  n: '1',
  logprobs: 'false',
  frequency_penalty: '0',
  presence_penalty: '0',
  logit_bias: '{}',
  store: 'false',
  service_tier: '"auto"',
  modalities: '["text"]',
  functions: '[]',
  function_call: '"none"',
};

/** @returns a refusal where the call can't be said in Anthropic's Messages. */
export function messagesRequest(call: ProviderCall): ProviderRequest | ApiError {
  try {
    return translate(call);
  } catch (error) {
    if (error instanceof UnsupportedField) return error.refusal;
    throw error;
  }
}

function translate({ body, parsed: asked, model, tokenLimit }: ProviderCall): ProviderRequest {
  const members = membersOf(body.bytes.toString());
  const unsupported = new Set<string>();
  for (const [name, text] of members) {
    if (text === 'null') members.delete(name);
    else if (!TAKEN.has(name) && ASKS_NOTHING[name] !== text.replaceAll(/\s/g, '')) unsupported.add(name);
  }
  refuseWhatMatters(members, unsupported);

  const maxTokens = tokenLimit ?? asked.completionLimit ?? REPLY_TOKENS_DEFAULT;
  const { system, messages, forgotThoughts } = conversationOf(members.get('messages') ?? '[]', (member) =>
    unsupported.add(member),
  );
  const { tools, choice, forced } = toolsOf(members);
  const {
    thinking,
    effort,
    withBudget,
    unsupported: thoughtless,
  } = thinkingOf(members, model, maxTokens, forced || forgotThoughts);
  for (const name of thoughtless) unsupported.add(name);
  const { format, instruction } = formatOf(members.get('response_format'));
  if (instruction !== null) system.push(instruction);
  const sampling = samplingOf(members, takesSampling(model) && !withBudget, unsupported);

  const text = objectOf({
    model: JSON.stringify(model),
    max_tokens: String(maxTokens),
    stream: asked.sse ? 'true' : null,
    ...sampling,
    stop_sequences: stopOf(members.get('stop'), unsupported),
    thinking,
    output_config: effort === null && format === null ? null : objectOf({ effort, format }),
    metadata: metadataOf(members, unsupported),
    tool_choice: choice,
    // Members before them change from call to call, those after them grow: a prompt's cache begins with the
    // tools.
    tools,
    cache_control: objectAmong(members.get('cache_control')),
    system: system.length === 0 ? null : arrayOf(system),
    messages: arrayOf(messages),
  });
  return {
    path: MESSAGES_PATH,
    body: Buffer.from(text),
    headers: VERSION_HEADER,
    unsupported: [...unsupported],
  };
}

/** Without these a reply would be of another kind than the client requested. */
function refuseWhatMatters(members: ReadonlyMap<string, string>, unsupported: ReadonlySet<string>): void {
  if (unsupported.has('functions'))
    throw new UnsupportedField('functions', 'is not known to this model\'s provider; use "tools"');
  if (members.get('modalities')?.includes('"audio"'))
    throw new UnsupportedField(
      'modalities',
      "asks for sound, and this model's provider replies in text alone",
    );
}

function samplingOf(
  members: ReadonlyMap<string, string>,
  may: boolean,
  unsupported: Set<string>,
): Record<string, string | null> {
  let temperature = members.get('temperature') ?? null;
  let topP = members.get('top_p') ?? null;
  // Asking for 1 asks for nothing, and some models refuse even that.
  if (Number(topP) === 1) topP = null;
  if (Number(temperature) === 1 && (topP !== null || !may)) temperature = null;
  if (temperature !== null && Number(temperature) > TEMPERATURE_MAX) temperature = String(TEMPERATURE_MAX);
  const topK = members.get('top_k') ?? null;
  const reported = may
    ? { temperature, top_p: temperature === null ? topP : null, top_k: topK }
    : { temperature: null, top_p: null, top_k: null };
  // Models from 4.1 on refuse both at once.
  for (const [name, text] of Object.entries({ temperature, top_p: topP, top_k: topK })) {
    if (text !== null && reported[name as keyof typeof reported] === null) unsupported.add(name);
  }
  return reported;
}

/** Anthropic refuses sequences of blanks. */
function stopOf(stop: string | undefined, unsupported: Set<string>): string | null {
  if (stop === undefined) return null;
  const given = stop[0] === '"' ? [stop] : elementsOf(stop);
  const sequences = given.filter((each) => each[0] !== '"' || (JSON.parse(each) as string).trim() !== '');
  if (sequences.length < given.length) unsupported.add('stop');
  return sequences.length === 0 ? null : arrayOf(sequences);
}

function metadataOf(members: ReadonlyMap<string, string>, unsupported: Set<string>): string | null {
  const metadata = membersOf(members.get('metadata') ?? '{}');
  if ([...metadata.keys()].some((name) => name !== 'user_id')) unsupported.add('metadata');
  const user = [metadata.get('user_id'), members.get('safety_identifier'), members.get('user')].find(
    (each) => each?.[0] === '"',
  );
  return user === undefined ? null : objectOf({ user_id: user });
}

function formatOf(text: string | undefined): { format: string | null; instruction: string | null } {
  if (text === undefined) return { format: null, instruction: null };
  const members = membersOf(text);
  switch (members.get('type')) {
    case '"text"':
      return { format: null, instruction: null };
    case '"json_object"':
      return { format: null, instruction: objectOf({ type: '"text"', text: JSON.stringify(JSON_ONLY) }) };
    case '"json_schema"': {
      const schema = objectAmong(membersOf(members.get('json_schema') ?? '{}').get('schema'));
      if (schema === null)
        throw new UnsupportedField('response_format.json_schema.schema', 'must be an object');
      return { format: objectOf({ type: '"json_schema"', schema }), instruction: null };
    }
    default:
      throw new UnsupportedField('response_format.type', 'must be "text", "json_object" or "json_schema"');
  }
}

function objectAmong(text: string | undefined): string | null {
  return text?.[0] === '{' ? text : null;
}
