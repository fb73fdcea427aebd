import type { Usage } from '#db/money.ts';
import type { Literal } from '#server/protocols/literal.ts';

/** A reply as every protocol can state it, in the order of its stream; texts are literals. Pure. */
export type ReplyEvent =
  | { type: 'start'; id: Literal; model: Literal }
  | { type: 'text'; text: Literal }
  | { type: 'refusal'; text: Literal }
  | { type: 'reasoning'; text: Literal }
  /** Ends the reasoning before it. Without any it proves a thought that isn't shown. */
  | { type: 'signature'; signature: Literal }
  | { type: 'redacted_reasoning'; data: Literal }
  /** @property index its place among the calls of the reply. */
  | { type: 'tool_call'; index: number; id: Literal; name: Literal }
  /** The next fragment of a call's arguments; fragments of parallel calls may alternate. */
  | { type: 'tool_arguments'; index: number; text: Literal }
  /** A source of the text before it. */
  | { type: 'citation'; url: Literal; title: Literal }
  /** @property url a data URL, or an address. */
  | { type: 'image'; url: Literal }
  | { type: 'finish'; reason: FinishReason };

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

/** The events of a reply that carry what the model writes. */
export type Delta = Extract<ReplyEvent, { type: 'text' | 'reasoning' | 'tool_arguments' }>;

export const isDelta = (event: ReplyEvent | undefined): event is Delta =>
  event?.type === 'text' || event?.type === 'reasoning' || event?.type === 'tool_arguments';

/** Reads one reply in an upstream's protocol. */
export type ReplyReader = {
  /**
   * Reads the data of one event of a streamed reply.
   * @param json the same as latin-1 text, for values that are cut out as they stand.
   */
  read(value: unknown, json: string): ReplyEvent[];
  /** Reads a whole reply. */
  whole(value: unknown, json: string): ReplyEvent[];
  /** A delta in a spelling of the protocol that needs no parsing; null: it has to be parsed. */
  quick?(event: string): Delta | null;
  /** Whether nothing would be read from an event, which needs no parsing then. */
  isUnread?(event: string): boolean;
  /** Whether the stream has reached its last event, and not just the end of what the model writes. */
  readonly isOver: boolean;
};

/** Writes one reply in a client's protocol, as latin-1 of UTF-8 bytes. */
export type ReplyWriter = {
  /** @returns the events of a streamed reply; empty: none. */
  take(event: ReplyEvent): string;
  /** The end of a streamed reply. @param usage null: the provider has reported none. */
  end(usage: Usage | null): string;
  /** The whole reply as JSON, instead of its events. */
  body(usage: Usage | null): string;
  /** Number of events written. */
  readonly events: number;
};
