import type { Readable } from 'node:stream';
import type { RelayedRoute } from '#db/limits/limits.ts';
import type { Usage } from '#db/money.ts';
import type { TokenLimitMember } from '#db/events/upstream-events.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import type { Redactor } from '#server/wire/redactor.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import type { PromptUsage, SseReader } from '#server/wire/sse.ts';
import type { Body } from '#server/wire/read-body.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';

/**
 * The port of the providers: translates to and from an upstream's protocol. Translation only; sockets,
 * deadlines and the client are the relay's. Whatever a client asked for in the convention goes out as
 * the provider expects it, and the reply is read as it passes, and translated where needed.
 */
export type Provider = {
  /**
   * The request to the upstream.
   * @returns a refusal where the call can't be said in this protocol; it names the field at fault.
   */
  request(call: ProviderCall): ProviderRequest | ApiError;
  /** A reader for one streamed reply. */
  sse(call: ProviderCall): SseReader;
  /** Reads a complete JSON reply. @returns null: no client could read it. */
  json(bytes: Buffer, call: ProviderCall): JsonReply | null;
  /** What a reply says whose status is no success; null where it says nothing that can be read. */
  parseError(body: Buffer): ProviderError | null;
};

export type OnStored = (id: string, isRunning: boolean) => void;

/** A call as an upstream is asked to carry it out. */
export type ProviderCall = {
  route: RelayedRoute;
  /** The client's body: a JSON object, bounded in size and depth. */
  body: Body;
  parsed: ParsedRequest;
  /** What this upstream calls the model. */
  model: string;
  /** The limit on each choice, in tokens, that is set in place of the client's; null leaves it. */
  tokenLimit: number | null;
  /** The member that such a limit is set in where the client sent none. */
  tokenLimitMember: TokenLimitMember;
  /**
   * Headers of the client's that belong to its protocol, in pairs, for calls that are not
   * translated.
   */
  protocolHeaders?: readonly string[];
  /** Removes the upstream's credentials and address from its reply. */
  redactor: Redactor;
  /** The W3C trace context that the upstream receives; null: none. */
  trace?: { traceparent: string; tracestate: string | null } | null;
  /**
   * Called with the id that the provider stores the reply under, once it is read, and whether the provider
   * still works on it; null: it isn't stored.
   */
  onStored?: OnStored | null;
};

export type ProviderRequest = {
  /** Behind the upstream's base address. */
  path: string;
  body: Buffer | Readable;
  /** Absent: JSON. */
  contentType?: string;
  /** More headers than those of the upstream itself, in pairs. */
  headers: readonly string[];
  /** Members of the client's request that this protocol has no place for, by their names. */
  unsupported: readonly string[];
  /** Whether it is for the provider's own API, beside the one of the upstream's dialect. */
  isOwn?: true;
  /** Fields that were lost when the request was translated from the client's protocol; absent: it wasn't. */
  untranslated?: readonly string[];
};

/**
 * How an upstream receives the reasoning of earlier replies in a chat: as text in `reasoning_content`, with
 * its signatures in `reasoning_details`, or not at all.
 */
export type ReasoningForm = 'details' | 'content' | 'none';

export type JsonReply = {
  /** What the client gets: the provider's own bytes, or their translation. */
  bytes: Buffer;
  /** The bytes as a text of latin-1, where they were read as one; null: they weren't. */
  text: string | null;
  usage: Usage | null;
  /** The usage of the prompt, where the provider reported it without that of the output. */
  promptUsage: PromptUsage | null;
  /** Whether the provider reported a usage that no call can have. */
  isImplausible: boolean;
  /** What the reply states about itself. */
  facts: Readonly<ReplyFacts>;
  /** The size of what the model has written, for a reply whose usage is estimated. */
  outputBytes: () => number;
  /** An error object under a status that says success, as some providers send. */
  failed: boolean;
};

/** An error in the provider's words, not yet fit for a client: it may contain credentials and addresses. */
export type ProviderError = { message: string; param: string | null };
