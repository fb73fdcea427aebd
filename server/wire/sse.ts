import type { Usage } from '#db/money.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';

/** The events of a streamed reply, as latin-1 text of its bytes. Pure. */

const LINE_END = /\r\n|\n|\r/;
const DATA_LINE = /(?:^|[\r\n])data:/;

/** What an event's data lines hold; null where it has none, as comments do. */
export function dataOf(event: string): string | null {
  const single = onlyLineOf(event);
  if (single !== null) return single;
  if (!DATA_LINE.test(event)) return null;
  return event
    .split(LINE_END)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(line[5] === ' ' ? 6 : 5))
    .join('\n');
}

/** The data of an event whose last line is the only one with data, as nearly all are; null: another event. */
function onlyLineOf(event: string): string | null {
  const at = event.startsWith('data:') ? 0 : event.indexOf('\ndata:') + 1;
  const isLast = event.indexOf('\n', at) === event.length - 2 && event.endsWith('\n');
  if (!isLast || !event.startsWith('data:', at) || event.includes('\r')) return null;
  return event.slice(at + (event[at + 5] === ' ' ? 6 : 5), -2);
}

/**
 * Reads one streamed reply as it passes. Bytes go in as they are received and complete events come out, so
 * that an error can be appended after a cut without gluing it to half an event.
 */
export type SseReader = {
  /** Takes the next bytes. @returns the bytes to send to the client now, which may be none. */
  push(chunk: Buffer): Buffer | null;
  /** The rest, when the upstream has ended the stream. */
  flush(): Buffer | null;
  /**
   * The end of a translated reply that is complete, and whose connection has broken.
   */
  close?(): Buffer | null;
  /** The usage that the provider reported for the whole call; null until it does. */
  readonly usage: Usage | null;
  /** The usage reported for the prompt alone, by providers that do so before the reply ends. */
  readonly promptUsage: PromptUsage | null;
  /** Whether the provider reported a usage that no call can have. */
  readonly isImplausible: boolean;
  /** What the reply has stated about itself so far. */
  readonly facts: Readonly<ReplyFacts>;
  /** Tokens of the reply relayed so far, counted by us. */
  readonly countedTokens: number;
  /** Number of events with data: progress, which comments are not. */
  readonly dataEvents: number;
  /** Whether the provider has marked the reply as complete. */
  readonly complete: boolean;
  /** Whether the stream contained an error event, which the client has received too. */
  readonly failed: boolean;
  /** Whether the client has received the beginning of an event but not its end. */
  readonly insideEvent: boolean;
};

/** The part of a usage that is the prompt's. */
export type PromptUsage = Omit<Usage, 'output' | 'reasoning'>;
