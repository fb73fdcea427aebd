import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits/limits.ts';
import type { Listed, Shape } from '#server/limits/json-shape.ts';

/**
 * The members, types and values that requests of each route may have under a hard limit: those that leave
 * their usage bounded by their bytes and by the limit on their reply. Everything else is rejected, since
 * providers and SDKs add fields that refer to stored content, or that make the provider run tools. Pure.
 */

/** Members whose content is not compared. */
function members(names: string, compared: Readonly<Record<string, Listed>> = {}): Record<string, Listed> {
  const all: Record<string, Listed> = {};
  for (const name of names.split(/\s+/).filter(Boolean)) all[name] = 'anything';
  return Object.assign(all, compared);
}
const types = (names: string): ReadonlySet<string> => new Set(names.split(/\s+/));

/** Texts, and files and images that `promptBound` counts. */
const CHAT_PART: Shape = {
  types: types(
    'text refusal image_url image_embeds input_audio audio_url video_url file thinking ' +
      'input_text output_text input_image input_file',
  ),
  members: members(`text refusal image_url image_embeds input_audio audio_url video_url file thinking detail
    cache_control prompt_cache_breakpoint min_pixels max_pixels file_id file_data file_url filename
    annotations logprobs`),
};
const CHAT_MESSAGE: Shape = {
  members: members(
    `role name tool_calls tool_call_id function_call refusal reasoning reasoning_content reasoning_details
    annotations cache_control prefix partial id extra_content provider_specific_fields`,
    { content: CHAT_PART },
  ),
};

const FUNCTION_MEMBERS = `name description parameters strict format defer_loading allowed_callers async
  output_schema cache_control`;
const CHAT_TOOL: Shape = {
  types: types('function custom'),
  members: members(`function custom ${FUNCTION_MEMBERS}`),
};
/** A namespace is a group of functions. */
const RESPONSES_TOOL: Shape = {
  types: types('function custom namespace'),
  members: members(FUNCTION_MEMBERS, { tools: CHAT_TOOL }),
};

/** `pro` runs a model more than once. */
const REASONING: Shape = {
  members: members('effort summary generate_summary context max_tokens exclude enabled', {
    mode: ['standard'],
  }),
};

/** How tokens are sampled, and what only names, stores or times a request. */
const SAMPLING = 'temperature top_p frequency_penalty presence_penalty logit_bias logprobs seed stop';
/** The same of servers such as vLLM, and of providers beside OpenAI. */
const MORE_SAMPLING = `top_k top_a min_p typical_p repetition_penalty min_tokens stop_token_ids ignore_eos
  skip_special_tokens include_stop_str_in_output spaces_between_special_tokens truncate_prompt_tokens
  guided_json guided_regex guided_choice guided_grammar structured_outputs random_seed do_sample priority`;
const LABELS = 'model user store metadata stream stream_options safety_identifier service_tier';
const CACHE = 'prompt_cache_key prompt_cache_options prompt_cache_retention';

const CHAT: Shape = {
  members: members(
    `${LABELS} ${CACHE} ${SAMPLING} ${MORE_SAMPLING} max_tokens max_completion_tokens n top_logprobs audio
    function_call functions moderation parallel_tool_calls reasoning_effort response_format
    tool_choice verbosity chat_template_kwargs enable_thinking thinking thinking_budget
    include_reasoning reasoning_format think safe_prompt provider transforms usage session_id`,
    {
      messages: CHAT_MESSAGE,
      tools: CHAT_TOOL,
      reasoning: REASONING,
      // Images have a price for each, which no limit on tokens bounds.
      modalities: ['text', 'audio'],
    },
  ),
};

const COMPLETION: Shape = {
  members: members(`${LABELS} ${SAMPLING} ${MORE_SAMPLING} max_tokens n best_of prompt suffix echo
    reasoning_effort`),
};

const EMBEDDING: Shape = {
  members: members(
    `model user encoding_format dimensions input_type truncate truncation truncate_prompt_tokens task
    output_dtype output_dimension priority`,
    // Texts and tokens only: an object may be an address.
    { input: { members: {} } },
  ),
};

const MODERATION: Shape = { members: members('model user', { input: { members: {} } }) };

/** A reranker reads its query once for each document, and an image has a price that no limit bounds. */
const UNBOUNDED: Shape = { members: members('model user') };

/** Reasoning with an id but without its content is looked up by its id. */
const RESPONSES_ITEM: Shape = {
  types: types(
    'message function_call function_call_output custom_tool_call custom_tool_call_output reasoning ' +
      'compaction',
  ),
  // Otherwise it refers to a stored item.
  untyped: ['role'],
  needs: { reasoning: { when: 'id', needs: 'encrypted_content' } },
  members: members(
    `role id status phase name arguments call_id input namespace encrypted_content summary caller async`,
    { content: 'anything', output: 'anything' },
  ),
};
const RESPONSES_PART: Shape = {
  types: types('input_text output_text text refusal reasoning_text input_image input_file input_audio'),
  members: members(`text refusal annotations logprobs detail file_id file_data file_url filename image_url
    input_audio prompt_cache_breakpoint`),
};
Object.assign(RESPONSES_ITEM.members, { content: RESPONSES_PART, output: RESPONSES_PART });

const RESPONSES: Shape = {
  members: members(
    `${LABELS} ${CACHE} include instructions max_output_tokens max_tool_calls moderation
    parallel_tool_calls image temperature text tool_choice top_logprobs top_p truncation background
    frequency_penalty presence_penalty top_k provider session_id client_metadata`,
    { input: RESPONSES_ITEM, tools: RESPONSES_TOOL, reasoning: REASONING },
  ),
};

/** Blocks of Anthropic's Messages; those in tool results and documents are of the same kinds. */
const MESSAGES_BLOCK_MEMBERS = members(
  `text citations cache_control title context thinking signature data id name input tool_use_id is_error
  encrypted_content from to trigger caller`,
);
const MESSAGES_BLOCK: Shape = {
  types: types(
    'text image document search_result thinking redacted_thinking tool_use tool_result compaction fallback',
  ),
  members: MESSAGES_BLOCK_MEMBERS,
};
const MESSAGES_SOURCE: Shape = {
  types: types('base64 text url file content'),
  members: members('media_type data url file_id', { content: MESSAGES_BLOCK }),
};
// The source of a search result is a text.
Object.assign(MESSAGES_BLOCK_MEMBERS, { content: MESSAGES_BLOCK, source: MESSAGES_SOURCE });

const MESSAGES_TOOL: Shape = {
  types: types('custom'),
  members: members(`name description input_schema input_examples cache_control strict eager_input_streaming
    defer_loading allowed_callers`),
};
/** Compaction is a request of its own within the request. */
const CONTEXT_MANAGEMENT: Shape = {
  members: {
    edits: {
      types: types('clear_tool_uses_20250919 clear_thinking_20251015'),
      members: members(`trigger
    keep clear_at_least clear_tool_inputs exclude_tools`),
    },
  },
};

const MESSAGES: Shape = {
  members: members(
    `model max_tokens metadata output_config output_format service_tier stop_sequences stream temperature
    thinking tool_choice top_k top_p cache_control diagnostics fallback_credit_token user_profile_id
    workspace_id`,
    {
      messages: { members: members('role clear_at output_config', { content: MESSAGES_BLOCK }) },
      system: MESSAGES_BLOCK,
      tools: MESSAGES_TOOL,
      context_management: CONTEXT_MANAGEMENT,
      // Others have a price of their own.
      speed: ['standard'],
      inference_geo: ['global'],
    },
  ),
};

/** A part of Gemini's contents; `executableCode` and its result are those of earlier replies. */
const GEMINI_CONTENT: Shape = {
  members: members('role', {
    parts: {
      members: members(`text thought thoughtSignature thought_signature inlineData inline_data fileData
        functionCall function_call functionResponse function_response executableCode codeExecutionResult
        videoMetadata mediaResolution partMetadata`),
    },
  }),
};
/** Names in another case are rejected where they could repeat what bounds the reply. */
const GEMINI: Shape = {
  members: members('toolConfig safetySettings labels model serviceTier', {
    contents: GEMINI_CONTENT,
    systemInstruction: GEMINI_CONTENT,
    system_instruction: GEMINI_CONTENT,
    tools: { members: members('functionDeclarations function_declarations') },
    generationConfig: {
      members: members(
        `temperature topP topK candidateCount maxOutputTokens stopSequences presencePenalty frequencyPenalty
        seed responseMimeType responseSchema responseJsonSchema _responseJsonSchema responseLogprobs logprobs
        thinkingConfig mediaResolution enableEnhancedCivicAnswers`,
        { responseModalities: ['TEXT', 'AUDIO'] },
      ),
    },
  }),
};
const GEMINI_EMBEDDING: Shape = {
  members: members('model taskType title outputDimensionality', { content: GEMINI_CONTENT }),
};
Object.assign(GEMINI_EMBEDDING.members, { requests: GEMINI_EMBEDDING });

/** The same for clients of Gemini's API, whose calls have these routes. */
export const GEMINI_LISTS: ReadonlyMap<RelayedRoute, Shape> = new Map([
  [CHAT_COMPLETIONS, GEMINI],
  ['/v1/embeddings', GEMINI_EMBEDDING],
]);

/** The body of a request of each route, as it may be under a hard limit. */
export const REQUEST_LISTS: Readonly<Record<RelayedRoute, Shape>> = {
  [CHAT_COMPLETIONS]: CHAT,
  '/v1/completions': COMPLETION,
  '/v1/embeddings': EMBEDDING,
  '/v1/responses': RESPONSES,
  '/v1/messages': MESSAGES,
  '/v1/moderations': MODERATION,
  '/v1/rerank': UNBOUNDED,
  '/v1/images/generations': UNBOUNDED,
  // These are forms, see unbounded-request.ts.
  '/v1/images/edits': UNBOUNDED,
  '/v1/images/variations': UNBOUNDED,
  '/v1/audio/transcriptions': UNBOUNDED,
  '/v1/audio/translations': UNBOUNDED,
  '/v1/audio/speech': UNBOUNDED,
};
