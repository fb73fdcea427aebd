/**
 * Where clients name the end user, the session and the tags of a call. The first source with a valid value
 * counts, for each of the three by itself: the headers in this order, then the members of the body. Pure.
 */

/** A header, and the client or convention that it is from. */
type HeaderSource = { header: string; from: string };

export const END_USER_HEADERS: readonly HeaderSource[] = [
  { header: 'x-daybook-user', from: 'Daybook' },
  { header: 'x-openwebui-user-id', from: 'Open WebUI' },
  { header: 'x-litellm-customer-id', from: 'LiteLLM' },
  { header: 'x-litellm-end-user-id', from: 'LiteLLM' },
  { header: 'helicone-user-id', from: 'Helicone' },
];

export const SESSION_HEADERS: readonly HeaderSource[] = [
  { header: 'x-daybook-session', from: 'Daybook' },
  { header: 'x-claude-code-session-id', from: 'Claude Code' },
  { header: 'session-id', from: 'Codex' },
  { header: 'session_id', from: 'Codex, earlier versions' },
  { header: 'conversation_id', from: 'Codex, earlier versions' },
  { header: 'thread-id', from: 'Codex' },
  { header: 'x-opencode-session', from: 'opencode' },
  { header: 'x-session-affinity', from: 'opencode, Kilo Code' },
  { header: 'x-session-id', from: 'opencode, OpenRouter' },
  { header: 'x-qwen-code-session-id', from: 'Qwen Code' },
  { header: 'x-kilocode-taskid', from: 'Kilo Code' },
  { header: 'x-task-id', from: 'Cline' },
  { header: 'x-client-session-id', from: 'Copilot CLI' },
  { header: 'x-openwebui-chat-id', from: 'Open WebUI' },
  { header: 'x-litellm-session-id', from: 'LiteLLM' },
  { header: 'helicone-session-id', from: 'Helicone' },
  { header: 'x-grok-conv-id', from: 'xAI' },
];

export const TAG_HEADERS: readonly HeaderSource[] = [
  { header: 'x-daybook-tags', from: 'Daybook' },
  { header: 'x-litellm-tags', from: 'LiteLLM' },
];

/** Members of the body with the end user. `metadata.user_id` may hold the session beside it. */
export const END_USER_MEMBERS = ['user', 'safety_identifier', 'metadata.user_id'] as const;
/** Members of the body with the session. A `prompt_cache_key` counts only where it is an id. */
export const SESSION_MEMBERS = ['session_id', 'metadata.session_id', 'prompt_cache_key'] as const;
/** Members of the body with the tags: a text with commas, or a list of texts. */
export const TAG_MEMBERS = ['metadata.tags'] as const;

/** The top-level members among them. A body that has one of them twice is read as if it had none. */
export const ATTRIBUTION_MEMBERS = [
  'user',
  'safety_identifier',
  'metadata',
  'session_id',
  'prompt_cache_key',
] as const;
