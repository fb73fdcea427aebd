/**
 * The language model of an AI SDK package, specification V3 or V4, as far as it is used here. The
 * packages are the operator's and need not be installed, so their own types can't be imported.
 */
export type LanguageModel = {
  readonly specificationVersion: Specification;
  readonly modelId: string;
  /** Addresses that the provider fetches by itself, as patterns for each media type. */
  readonly supportedUrls?: SupportedUrls | PromiseLike<SupportedUrls>;
  doGenerate(options: SendOptions): PromiseLike<Generated>;
  doStream(
    options: SendOptions,
  ): PromiseLike<{ stream: ReadableStream<StreamPart>; response?: ReplyHeaders | undefined }>;
};

export type Specification = 'v3' | 'v4';
export type SupportedUrls = Record<string, RegExp[]>;

/** The options of one call. */
export type CallOptions = {
  prompt: Message[];
  maxOutputTokens?: number;
  temperature?: number;
  topP?: number;
  topK?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  stopSequences?: string[];
  seed?: number;
  responseFormat?: { type: 'text' } | { type: 'json'; schema?: object; name?: string; description?: string };
  tools?: FunctionTool[];
  toolChoice?: { type: 'auto' | 'none' | 'required' } | { type: 'tool'; toolName: string };
  /** V4 alone. */
  reasoning?: Effort;
};
export type SendOptions = CallOptions & { abortSignal: AbortSignal };

export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] as const;
export type Effort = (typeof EFFORTS)[number];

export type FunctionTool = {
  type: 'function';
  name: string;
  inputSchema: object;
  description?: string;
  strict?: boolean;
};

/**
 * Values of the provider's own, by the provider's name: it expects them back with the part that it sent
 * them with.
 */
export type OwnValues = Record<string, Record<string, unknown>>;

export type Message =
  | { role: 'system'; content: string }
  | { role: 'user'; content: (TextPart | FilePart)[] }
  | { role: 'assistant'; content: (TextPart | ReasoningPart | ToolCallPart)[] }
  | { role: 'tool'; content: ToolResultPart[] };
export type TextPart = { type: 'text'; text: string };
export type ReasoningPart = { type: 'reasoning'; text: string };
/** `data`: tagged in V4; the base64 text or the address itself in V3. */
export type FilePart = {
  type: 'file';
  mediaType: string;
  filename?: string;
  data: TaggedData | string | URL;
};
type TaggedData = { type: 'data'; data: string } | { type: 'url'; url: URL };
export type ToolCallPart = {
  type: 'tool-call';
  toolCallId: string;
  toolName: string;
  input: unknown;
  providerOptions?: OwnValues;
};
export type ToolResultPart = {
  type: 'tool-result';
  toolCallId: string;
  toolName: string;
  output: { type: 'text'; value: string };
};

/** A complete answer. */
export type Generated = {
  content: ContentPart[];
  finishReason: FinishReason;
  usage: ModelUsage;
  warnings: Warning[];
  response?: ResponseMetadata & ReplyHeaders;
};
/** The headers of the provider's reply, by their names in lower case. */
type ReplyHeaders = { headers?: Record<string, string> | undefined };
type ResponseMetadata = {
  id?: string | undefined;
  timestamp?: Date | undefined;
  modelId?: string | undefined;
};

export type ContentPart =
  | { type: 'text' | 'reasoning'; text: string }
  | ToolCall
  | GeneratedFile
  | { type: OtherPart };
/** `input`: JSON as text. */
export type ToolCall = {
  type: 'tool-call';
  toolCallId: string;
  toolName: string;
  input: string;
  providerExecuted?: boolean;
  providerMetadata?: OwnValues;
};
/** `data`: tagged in V4; base64 text or bytes in V3. */
export type GeneratedFile = {
  type: 'file';
  mediaType: string;
  data: string | Uint8Array | { type: 'data'; data: string | Uint8Array } | { type: 'url'; url: URL };
};
/** Parts that a chat completion has no place for: the names are some of theirs. */
type OtherPart =
  | 'source'
  | 'tool-result'
  | 'custom'
  | 'reasoning-file'
  | 'tool-approval-request'
  | 'raw'
  | 'ping';

/** Text, reasoning and tool inputs come in blocks with an id: a start, deltas, and an end. */
export type StreamPart =
  | { type: 'stream-start'; warnings: Warning[] }
  | ({ type: 'response-metadata' } & ResponseMetadata)
  | { type: 'text-delta' | 'reasoning-delta' | 'tool-input-delta'; id: string; delta: string }
  | { type: 'text-start' | 'text-end' | 'reasoning-start' | 'reasoning-end' | 'tool-input-end'; id: string }
  | { type: 'tool-input-start'; id: string; toolName: string; providerExecuted?: boolean }
  | ToolCall
  | GeneratedFile
  | { type: 'finish'; finishReason: FinishReason; usage: ModelUsage }
  | { type: 'error'; error: unknown }
  | { type: OtherPart };

/** `raw`: the provider's own word; absent where it sent none, for example when its stream was cut. */
export type FinishReason = {
  unified: 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'interrupted' | 'other';
  raw?: string | undefined;
};

/** In tokens; undefined: not reported. The totals include the parts. */
export type ModelUsage = {
  inputTokens: {
    total?: number | undefined;
    noCache?: number | undefined;
    cacheRead?: number | undefined;
    cacheWrite?: number | undefined;
  };
  outputTokens: { total?: number | undefined; text?: number | undefined; reasoning?: number | undefined };
  /** The provider's own report, in its own shape. */
  raw?: Record<string, unknown> | undefined;
};

export type Warning =
  | { type: 'unsupported' | 'compatibility'; feature: string; details?: string }
  | { type: 'deprecated'; setting: string; message: string }
  | { type: 'other'; message: string };
