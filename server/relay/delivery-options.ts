import type { JsonReply, ProviderError } from '#server/providers/provider.ts';
import type { SseReader } from '#server/wire/sse.ts';
import type { Deadlines } from '#server/relay/deadlines.ts';
import type { AttemptFailure } from '#server/relay/failure.ts';
import type { ClientWriterOptions } from '#server/relay/client-writer.ts';
import type { ReplyTimeouts } from '#server/relay/reply-clock.ts';
import type { CallEnd } from '#server/relay/reply-usage.ts';

/** What a try of a call needs to know of it, and whom it tells what becomes of it. */
export type DeliveryOptions = ClientWriterOptions & {
  /** How the upstream's replies are read, and made what the client can read. */
  protocol: {
    sse(): SseReader;
    json(bytes: Buffer): JsonReply | null;
    fault(body: Buffer): ProviderError | null;
  };
  /** Members of the request that the provider has no place for. */
  unsupported: readonly string[];
  /** The prompt's tokens by our estimate, for a reply whose provider never says. */
  promptEstimate: number;
  /** Where the upstream lives, which no client may be told. */
  upstreamHost: string;
  timeouts: ReplyTimeouts;
  deadlines: Deadlines;
  gateOpen: boolean;
  /** What a streamed reply may still spend; null: whatever it likes. */
  budget: { nextAt: number; reached(counted: number): boolean } | null;
  /** The head of a good reply has come, so many milliseconds after the request went out. */
  onAnswer: (afterMs: number) => void;
  /** Whether another upstream could take over, should this one fail. */
  hasMore: () => boolean;
  /**
   * Has another upstream take over: what begins that, once this try has ended without a word; null: nobody
   * does.
   */
  again: (failure: AttemptFailure) => (() => void) | null;
  onEnd: (ending: CallEnd) => void;
};
