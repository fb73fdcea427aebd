import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { rejectUnbounded } from '#server/limits/unbounded-request.ts';

/**
 * The lists of members and types that pass under a hard limit, compared with the types of the SDKs: the
 * tables have a row for each member and each type that the installed SDKs know, or they don't compile. So
 * a new release of an SDK needs a decision for each field that it adds.
 */

type Keys<T> = T extends unknown ? keyof T : never;
type Element<T> = T extends readonly (infer U)[] ? U : never;
type TypeOf<T> = T extends { type?: infer U } ? Extract<U, string> : never;
/** A value that passes; `rejected`: no value does. */
type Verdict = 'passes' | 'rejected' | { onlyAs: unknown };
type Table<Name extends PropertyKey> = Record<Name, Verdict>;

type ChatParams = OpenAI.ChatCompletionCreateParams;
type ChatMessage = OpenAI.ChatCompletionMessageParam;
type ResponsesParams = OpenAI.Responses.ResponseCreateParams;
type MessagesParams = Anthropic.MessageCreateParams | Anthropic.Beta.MessageCreateParams;
type MessagesBlock = Element<Element<MessagesParams['messages']>['content']>;

const CHAT_MEMBERS: Table<Keys<ChatParams>> = {
  audio: 'passes',
  frequency_penalty: 'passes',
  function_call: 'passes',
  functions: 'passes',
  logit_bias: 'passes',
  logprobs: 'passes',
  max_completion_tokens: 'passes',
  max_tokens: 'passes',
  messages: 'passes',
  metadata: 'passes',
  modalities: { onlyAs: ['text', 'audio'] },
  model: 'passes',
  moderation: 'passes',
  n: 'passes',
  parallel_tool_calls: 'passes',
  prediction: 'rejected',
  presence_penalty: 'passes',
  prompt_cache_key: 'passes',
  prompt_cache_options: 'passes',
  prompt_cache_retention: 'passes',
  reasoning_effort: 'passes',
  response_format: 'passes',
  safety_identifier: 'passes',
  seed: 'passes',
  service_tier: 'passes',
  stop: 'passes',
  store: 'passes',
  stream: 'passes',
  stream_options: 'passes',
  temperature: 'passes',
  tool_choice: 'passes',
  tools: 'passes',
  top_logprobs: 'passes',
  top_p: 'passes',
  user: 'passes',
  verbosity: 'passes',
  web_search_options: 'rejected',
};

const CHAT_MESSAGE_MEMBERS: Table<Keys<ChatMessage>> = {
  audio: 'rejected',
  content: 'passes',
  function_call: 'passes',
  name: 'passes',
  refusal: 'passes',
  role: 'passes',
  tool_call_id: 'passes',
  tool_calls: 'passes',
};

const CHAT_PARTS: Table<TypeOf<Element<ChatMessage['content']>>> = {
  file: 'passes',
  image_url: 'passes',
  input_audio: 'passes',
  refusal: 'passes',
  text: 'passes',
};

const CHAT_TOOLS: Table<TypeOf<Element<ChatParams['tools']>>> = { custom: 'passes', function: 'passes' };

const COMPLETION_MEMBERS: Table<Keys<OpenAI.CompletionCreateParams>> = {
  best_of: 'passes',
  echo: 'passes',
  frequency_penalty: 'passes',
  logit_bias: 'passes',
  logprobs: 'passes',
  max_tokens: 'passes',
  model: 'passes',
  n: 'passes',
  presence_penalty: 'passes',
  prompt: 'passes',
  seed: 'passes',
  stop: 'passes',
  stream: 'passes',
  stream_options: 'passes',
  suffix: 'passes',
  temperature: 'passes',
  top_p: 'passes',
  user: 'passes',
};

const EMBEDDING_MEMBERS: Table<Keys<OpenAI.EmbeddingCreateParams>> = {
  dimensions: 'passes',
  encoding_format: 'passes',
  input: { onlyAs: 'text' },
  model: 'passes',
  user: 'passes',
};

const RESPONSES_MEMBERS: Table<Keys<ResponsesParams>> = {
  access_programs: 'rejected',
  background: 'passes',
  context_management: 'rejected',
  conversation: 'rejected',
  image: 'passes',
  include: 'passes',
  input: { onlyAs: [{ role: 'user', content: 'x' }] },
  instructions: 'passes',
  max_output_tokens: 'passes',
  max_tool_calls: 'passes',
  metadata: 'passes',
  model: 'passes',
  moderation: 'passes',
  parallel_tool_calls: 'passes',
  previous_response_id: 'rejected',
  prompt: 'rejected',
  prompt_cache_key: 'passes',
  prompt_cache_options: 'passes',
  prompt_cache_retention: 'passes',
  reasoning: 'passes',
  safety_identifier: 'passes',
  service_tier: 'passes',
  store: 'passes',
  stream: 'passes',
  stream_options: 'passes',
  temperature: 'passes',
  text: 'passes',
  tool_choice: 'passes',
  tools: 'passes',
  top_logprobs: 'passes',
  top_p: 'passes',
  truncation: 'passes',
  user: 'passes',
};

const REASONING_MEMBERS: Table<keyof OpenAI.Reasoning> = {
  context: 'passes',
  effort: 'passes',
  generate_summary: 'passes',
  mode: { onlyAs: 'standard' },
  summary: 'passes',
};

const RESPONSES_ITEMS: Table<TypeOf<Element<ResponsesParams['input']>>> = {
  additional_tools: 'rejected',
  apply_patch_call: 'rejected',
  apply_patch_call_output: 'rejected',
  code_interpreter_call: 'rejected',
  compaction: 'passes',
  compaction_trigger: 'rejected',
  computer_call: 'rejected',
  computer_call_output: 'rejected',
  configuration_update: 'rejected',
  custom_tool_call: 'passes',
  custom_tool_call_output: 'passes',
  file_search_call: 'rejected',
  function_call: 'passes',
  function_call_output: 'passes',
  image_generation_call: 'rejected',
  item_reference: 'rejected',
  local_shell_call: 'rejected',
  local_shell_call_output: 'rejected',
  mcp_approval_request: 'rejected',
  mcp_approval_response: 'rejected',
  mcp_call: 'rejected',
  mcp_list_tools: 'rejected',
  message: 'passes',
  program: 'rejected',
  program_output: 'rejected',
  reasoning: 'passes',
  shell_call: 'rejected',
  shell_call_output: 'rejected',
  tool_search_call: 'rejected',
  tool_search_output: 'rejected',
  web_search_call: 'rejected',
};

const RESPONSES_PARTS: Table<OpenAI.Responses.ResponseInputContent['type'] | 'output_text' | 'refusal'> = {
  input_file: 'passes',
  input_image: 'passes',
  input_text: 'passes',
  output_text: 'passes',
  refusal: 'passes',
};

const RESPONSES_TOOLS: Table<TypeOf<Element<ResponsesParams['tools']>>> = {
  apply_patch: 'rejected',
  code_interpreter: 'rejected',
  computer: 'rejected',
  computer_use_preview: 'rejected',
  custom: 'passes',
  file_search: 'rejected',
  function: 'passes',
  image_generation: 'rejected',
  local_shell: 'rejected',
  mcp: 'rejected',
  namespace: 'passes',
  programmatic_tool_calling: 'rejected',
  shell: 'rejected',
  tool_search: 'rejected',
  web_search: 'rejected',
  web_search_2025_08_26: 'rejected',
  web_search_preview: 'rejected',
  web_search_preview_2025_03_11: 'rejected',
};

/** `betas` is sent as a header. */
const MESSAGES_MEMBERS: Table<Exclude<Keys<MessagesParams>, 'betas'>> = {
  cache_control: 'passes',
  compaction: 'rejected',
  container: 'rejected',
  context_management: 'passes',
  diagnostics: 'passes',
  fallback_credit_token: 'passes',
  fallbacks: 'rejected',
  inference_geo: { onlyAs: 'global' },
  max_tokens: 'passes',
  mcp_servers: 'rejected',
  messages: 'passes',
  metadata: 'passes',
  model: 'passes',
  output_config: 'passes',
  output_format: 'passes',
  service_tier: 'passes',
  speed: { onlyAs: 'standard' },
  stop_sequences: 'passes',
  stream: 'passes',
  system: 'passes',
  thinking: 'passes',
  thread: 'rejected',
  tool_choice: 'passes',
  tools: 'passes',
  user_profile_id: 'passes',
  workspace_id: 'passes',
};

const MESSAGES_MESSAGE_MEMBERS: Table<Keys<Element<MessagesParams['messages']>>> = {
  clear_at: 'passes',
  content: 'passes',
  output_config: 'passes',
  role: 'passes',
};

const MESSAGES_BLOCKS: Table<TypeOf<MessagesBlock>> = {
  advisor_tool_result: 'rejected',
  bash_code_execution_tool_result: 'rejected',
  code_execution_tool_result: 'rejected',
  compaction: 'passes',
  container_upload: 'rejected',
  document: 'passes',
  fallback: 'passes',
  image: 'passes',
  mcp_tool_listing: 'rejected',
  mcp_tool_result: 'rejected',
  mcp_tool_use: 'rejected',
  redacted_thinking: 'passes',
  search_result: 'passes',
  server_tool_use: 'rejected',
  text: 'passes',
  text_editor_code_execution_tool_result: 'rejected',
  thinking: 'passes',
  tool_addition: 'rejected',
  tool_removal: 'rejected',
  tool_result: 'passes',
  tool_search_tool_result: 'rejected',
  tool_use: 'passes',
  web_fetch_tool_result: 'rejected',
  web_search_tool_result: 'rejected',
};

const MESSAGES_RESULT_BLOCKS: Table<
  TypeOf<Element<Extract<MessagesBlock, { type: 'tool_result' }>['content']>>
> = {
  browser_state: 'rejected',
  document: 'passes',
  image: 'passes',
  search_result: 'passes',
  text: 'passes',
  tool_reference: 'rejected',
};

const MESSAGES_TOOLS: Table<TypeOf<Element<MessagesParams['tools']>>> = {
  advisor_20260301: 'rejected',
  bash_20241022: 'rejected',
  bash_20250124: 'rejected',
  browser_toolset_20260801: 'rejected',
  code_execution_20250522: 'rejected',
  code_execution_20250825: 'rejected',
  code_execution_20260120: 'rejected',
  code_execution_20260521: 'rejected',
  computer_20241022: 'rejected',
  computer_20250124: 'rejected',
  computer_20251124: 'rejected',
  computer_toolset_20260801: 'rejected',
  custom: 'passes',
  mcp_toolset: 'rejected',
  memory_20250818: 'rejected',
  text_editor_20241022: 'rejected',
  text_editor_20250124: 'rejected',
  text_editor_20250429: 'rejected',
  text_editor_20250728: 'rejected',
  tool_search_tool_bm25: 'rejected',
  tool_search_tool_bm25_20251119: 'rejected',
  tool_search_tool_regex: 'rejected',
  tool_search_tool_regex_20251119: 'rejected',
  web_fetch_20250910: 'rejected',
  web_fetch_20260209: 'rejected',
  web_fetch_20260309: 'rejected',
  web_fetch_20260318: 'rejected',
  web_search_20250305: 'rejected',
  web_search_20260209: 'rejected',
  web_search_20260318: 'rejected',
};

const CONTEXT_EDITS: Table<
  TypeOf<Element<NonNullable<NonNullable<Anthropic.Beta.MessageCreateParams['context_management']>['edits']>>>
> = { clear_thinking_20251015: 'passes', clear_tool_uses_20250919: 'passes', compact_20260112: 'rejected' };

/** Where the names of a table stand in a body: the body with one of them, and the field that is at fault. */
type Place = [string, RelayedRoute, Table<string>, (name: string, value: unknown) => object, string];
const typed = (name: string): object => ({ type: name });

const PLACES: Place[] = [
  ['members', '/v1/chat/completions', CHAT_MEMBERS, (name, value) => ({ [name]: value }), '*'],
  [
    'members of messages',
    '/v1/chat/completions',
    CHAT_MESSAGE_MEMBERS,
    (name, value) => ({ messages: [{}, { [name]: value }] }),
    'messages[1].*',
  ],
  [
    'parts',
    '/v1/chat/completions',
    CHAT_PARTS,
    (name) => ({ messages: [{ content: [typed(name)] }] }),
    'messages[0].content[0].type',
  ],
  ['tools', '/v1/chat/completions', CHAT_TOOLS, (name) => ({ tools: [typed(name)] }), 'tools[0].type'],
  ['members', '/v1/completions', COMPLETION_MEMBERS, (name, value) => ({ [name]: value }), '*'],
  ['members', '/v1/embeddings', EMBEDDING_MEMBERS, (name, value) => ({ [name]: value }), '*'],
  ['members', '/v1/responses', RESPONSES_MEMBERS, (name, value) => ({ [name]: value }), '*'],
  [
    'members of reasoning',
    '/v1/responses',
    REASONING_MEMBERS,
    (name, value) => ({ reasoning: { [name]: value } }),
    'reasoning.*',
  ],
  ['items', '/v1/responses', RESPONSES_ITEMS, (name) => ({ input: [typed(name)] }), 'input[0].type'],
  [
    'parts',
    '/v1/responses',
    RESPONSES_PARTS,
    (name) => ({ input: [{ role: 'user', content: [typed(name)] }] }),
    'input[0].content[0].type',
  ],
  ['tools', '/v1/responses', RESPONSES_TOOLS, (name) => ({ tools: [typed(name)] }), 'tools[0].type'],
  ['members', '/v1/messages', MESSAGES_MEMBERS, (name, value) => ({ [name]: value }), '*'],
  [
    'members of messages',
    '/v1/messages',
    MESSAGES_MESSAGE_MEMBERS,
    (name, value) => ({ messages: [{ [name]: value }] }),
    'messages[0].*',
  ],
  [
    'blocks',
    '/v1/messages',
    MESSAGES_BLOCKS,
    (name) => ({ messages: [{ role: 'user', content: [typed(name)] }] }),
    'messages[0].content[0].type',
  ],
  [
    'blocks of tool results',
    '/v1/messages',
    MESSAGES_RESULT_BLOCKS,
    (name) => ({ messages: [{ content: [{ type: 'tool_result', content: [typed(name)] }] }] }),
    'messages[0].content[0].content[0].type',
  ],
  ['tools', '/v1/messages', MESSAGES_TOOLS, (name) => ({ tools: [typed(name)] }), 'tools[0].type'],
  [
    'edits',
    '/v1/messages',
    CONTEXT_EDITS,
    (name) => ({ context_management: { edits: [typed(name)] } }),
    'context_management.edits[0].type',
  ],
];

const rejected = (route: RelayedRoute, body: object): string | null =>
  rejectUnbounded(route, Buffer.from(JSON.stringify(body)), 'm')?.param ?? null;

describe('each field of an SDK passes or is rejected as listed', () => {
  test.each(PLACES)('%s of %s', (_what, route, table, bodyWith, path) => {
    for (const [name, verdict] of Object.entries(table)) {
      const at = path.replace('*', name);
      if (verdict === 'rejected') {
        expect([name, rejected(route, bodyWith(name, { id: 'x' }))]).toEqual([name, at]);
        expect([name, rejected(route, bodyWith(name, 'x'))]).toEqual([name, at]);
      } else if (verdict === 'passes')
        expect([name, rejected(route, bodyWith(name, []))]).toEqual([name, null]);
      else {
        expect([name, rejected(route, bodyWith(name, verdict.onlyAs))]).toEqual([name, null]);
        expect(rejected(route, bodyWith(name, [{ type: 'other' }]))).toContain(name);
      }
    }
  });

  test.each(PLACES)('%s of %s: an unknown name is rejected', (_what, route, _table, bodyWith, path) => {
    expect(rejected(route, bodyWith('new_in_2030', 'x'))).toBe(path.replace('*', 'new_in_2030'));
  });
});
