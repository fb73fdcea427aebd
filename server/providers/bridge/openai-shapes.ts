import type {
  ContentPart,
  FinishReason,
  GeneratedFile,
  ModelUsage,
  ToolCall,
  Warning,
} from '#server/providers/bridge/language-model.ts';

/** What language models say, in the words of the chat-completions convention. Pure. */

/** The head of every object of one reply. */
export type ReplyName = { id: string; model: string; createdS: number };

/**
 * Why the model ended. Null: it never said so, and the reply is not known to be whole. `error`: the
 * model failed, as with a tool call that it could not write down.
 */
export function finishOf(
  { unified, raw }: FinishReason,
  calledTools: boolean,
): 'stop' | 'length' | 'content_filter' | 'tool_calls' | 'error' | null {
  switch (unified) {
    case 'length':
      return 'length';
    case 'content-filter':
      return 'content_filter';
    case 'tool-calls':
      return 'tool_calls';
    case 'error':
      return 'error';
    case 'interrupted':
      return null;
    case 'other':
      // Packages begin with this one, and it stays where the provider's stream was cut.
      if (raw === undefined) return null;
      return calledTools ? 'tool_calls' : 'stop';
    case 'stop':
      return calledTools ? 'tool_calls' : 'stop';
    default:
      return null;
  }
}

/** Usage in OpenAI's shape; null where the provider has not reported both totals. */
export function usageOf(usage: ModelUsage | undefined): object | null {
  const billed = billedUnits(usage?.raw);
  const input = billed?.input_tokens ?? usage?.inputTokens.total;
  const output = billed?.output_tokens ?? usage?.outputTokens.total;
  if (usage === undefined || input === undefined || output === undefined) return null;
  const { cacheRead = 0, cacheWrite = 0 } = usage.inputTokens;
  const { raw = {} } = usage;
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: {
      cached_tokens: cacheRead,
      ...(cacheWrite > 0 ? { cache_write_tokens: cacheWrite } : {}),
      ...modalities(raw['promptTokensDetails']),
    },
    completion_tokens_details: {
      reasoning_tokens: usage.outputTokens.reasoning ?? 0,
      ...modalities(raw['candidatesTokensDetails']),
    },
    ...Object.fromEntries(RAW_MEMBERS.filter((name) => raw[name]).map((name) => [name, raw[name]])),
    // Google's spelling.
    ...(raw['serviceTier'] ? { service_tier: raw['serviceTier'] } : {}),
  };
}

/** Cohere charges for fewer tokens than its models read, and reports both. */
function billedUnits(raw: ModelUsage['raw']): { input_tokens?: number; output_tokens?: number } | null {
  const billed = raw?.['billed_units'];
  return typeof billed === 'object' ? billed : null;
}

/** Members of Anthropic's report that packages leave out of theirs, in the same words as gateways. */
const RAW_MEMBERS = ['cache_creation', 'server_tool_use', 'service_tier'] as const;

/** Google's counts of each modality, of which the convention has names for two. */
function modalities(details: unknown): { audio_tokens?: number; image_tokens?: number } {
  const found: { audio_tokens?: number; image_tokens?: number } = {};
  if (!Array.isArray(details)) return found;
  for (const each of details as ({ modality?: unknown; tokenCount?: unknown } | null)[]) {
    if (typeof each?.tokenCount !== 'number') continue;
    if (each.modality === 'AUDIO') found.audio_tokens = each.tokenCount;
    if (each.modality === 'IMAGE') found.image_tokens = each.tokenCount;
  }
  return found;
}

/**
 * What the provider wants back with the next turn goes to the client beside the call, as Gemini's own
 * compatible endpoint does it.
 */
export function extraOf({ providerMetadata }: ToolCall): { extra_content?: object } {
  return providerMetadata && Object.keys(providerMetadata).length > 0
    ? { extra_content: providerMetadata }
    : {};
}

/**
 * An image made by the model, in OpenRouter's shape; null for other files, which have
 * no place.
 */
export function imageOf({ mediaType, data }: GeneratedFile): object | null {
  if (!mediaType.startsWith('image/')) return null;
  const held =
    typeof data === 'object' && 'type' in data ? (data.type === 'url' ? data.url : data.data) : data;
  const url =
    held instanceof URL
      ? held.href
      : `data:${mediaType};base64,${typeof held === 'string' ? held : Buffer.from(held).toString('base64')}`;
  return { type: 'image_url', image_url: { url } };
}

/** Calls of tools that the client has; a provider's own tools have run already. */
export function isClientsCall(part: ContentPart): part is ToolCall {
  return part.type === 'tool-call' && part.providerExecuted !== true;
}

/** The convention's names of what packages name in their own way. */
const PARAMETERS: Record<string, string> = {
  maxOutputTokens: 'max_tokens',
  stopSequences: 'stop',
  reasoning: 'reasoning_effort',
};

/**
 * The parameters that a package says it has unsupported. Others of its words may hold parts of the request.
 */
export function unsupportedBy(warnings: readonly Warning[]): string[] {
  return warnings.flatMap((warning) => {
    if (warning.type !== 'unsupported' || !/^[A-Za-z]{1,40}$/.test(warning.feature)) return [];
    return (
      PARAMETERS[warning.feature] ?? warning.feature.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    );
  });
}
