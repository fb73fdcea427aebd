/**
 * A request as every protocol can state it: what a client's protocol is read into, and what an upstream's is
 * written from. Pure.
 */
export type Conversation = {
  turns: Turn[];
  tools: Tool[];
  toolChoice: ToolChoice | null;
  /** False: at most one call of a tool in a reply; null: not stated. */
  parallelToolCalls: boolean | null;
  /** A level such as `low`, in the words of OpenAI; null: not stated. */
  reasoningEffort: string | null;
  temperature: number | null;
  topP: number | null;
  stop: string[];
  format: ResponseFormat | null;
};

/** Results of tools are turns of their own. */
export type Turn =
  | { role: 'system'; parts: Text[] }
  | { role: 'user'; parts: UserPart[] }
  | { role: 'assistant'; parts: AssistantPart[] }
  | { role: 'tool'; results: ToolResult[] };

export type UserPart = Text | Image | Audio | Document;
export type AssistantPart = Text | Reasoning | ToolCall;

export type Text = { type: 'text'; text: string };
/** @property detail as OpenAI names it: `low`, `high` or `auto`; null: not stated. */
export type Image = { type: 'image'; url: string; detail: string | null };
/** @property format `wav` or `mp3`. */
export type Audio = { type: 'audio'; data: string; format: string };
/** @property url a data URL, or the address of the file. */
export type Document = { type: 'document'; url: string; name: string | null };
/** @property signature the provider's proof that the text is its own; null: it gave none. */
export type Reasoning =
  | { type: 'reasoning'; text: string; signature: string | null }
  | { type: 'redacted_reasoning'; data: string };
/** @property input JSON; of a custom tool, free text. */
export type ToolCall = { type: 'tool_call'; id: string; name: string; input: string; isCustom: boolean };
export type ToolResult = { id: string; parts: (Text | Image | Document)[] };

/** A tool that the client runs; a custom one takes free text. */
export type Tool =
  | { kind: 'function'; name: string; description: string | null; parameters: object | null; strict: boolean }
  | { kind: 'custom'; name: string; description: string | null };

export type ToolChoice = 'auto' | 'none' | 'required' | { name: string };

export type ResponseFormat =
  | { type: 'json_object' }
  | { type: 'json_schema'; name: string; schema: object; strict: boolean };

/** Names a field of the request that has no effect, for the client. */
export type ReportLoss = (field: string) => void;
