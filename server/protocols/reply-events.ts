import type { Usage } from '#db/money.ts';

/** A reply as every protocol can state it, in the order of its stream. Pure. */
export type ReplyEvent =
  | { type: 'start'; id: string; model: string }
  | { type: 'text'; text: string }
  | { type: 'refusal'; text: string }
  | { type: 'reasoning'; text: string }
  /** Ends the reasoning before it. */
  | { type: 'signature'; signature: string }
  | { type: 'redacted_reasoning'; data: string }
  /** @property index its place among the calls of the reply. */
  | { type: 'tool_call'; index: number; id: string; name: string }
  /** The next fragment of a call's arguments; fragments of parallel calls may alternate. */
  | { type: 'tool_arguments'; index: number; text: string }
  /** A source of the text before it. */
  | { type: 'citation'; url: string; title: string }
  /** @property url a data URL, or an address. */
  | { type: 'image'; url: string }
  | { type: 'finish'; reason: FinishReason };

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

/** Writes one reply in a client's protocol. */
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
