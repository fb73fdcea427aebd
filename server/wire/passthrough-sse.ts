import type { Usage } from '#db/money.ts';
import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import type { PromptUsage, SseReader } from '#server/wire/sse.ts';
import { dataOf, eventEnds } from '#server/wire/sse.ts';
import { OutputCounter } from '#server/wire/output-counter.ts';

/**
 * A streamed reply whose client uses the upstream's own protocol: the bytes are relayed unchanged, in
 * whole events, and each is looked at as it passes. What events mean its protocol says. Pure.
 */
export abstract class PassthroughSse implements SseReader {
  protected readonly output = new OutputCounter();
  #held: Buffer | null = null;
  #insideEvent = false;
  #dataEvents = 0;

  abstract readonly usage: Usage | null;
  abstract readonly promptUsage: PromptUsage | null;
  abstract readonly complete: boolean;
  abstract readonly failed: boolean;

  /**
   * Looks at an event that has data.
   * @param event as latin-1 text of its bytes, blank line included.
   * @returns whether the reply has got further by it.
   */
  protected abstract inspect(event: string): boolean;

  push(chunk: Buffer): Buffer | null {
    const bytes = this.#held ? Buffer.concat([this.#held, chunk]) : chunk;
    this.#held = null;
    const text = bytes.toString('latin1');
    let start = 0;
    for (const end of eventEnds(text)) {
      if (this.inspect(text.slice(start, end))) this.#dataEvents++;
      start = end;
    }
    if (start > 0) this.#insideEvent = false;
    if (bytes.length - start > SSE_EVENT_BYTES_MAX) {
      this.#insideEvent = true;
      this.#dataEvents++;
      return bytes;
    }
    if (start < bytes.length) this.#held = bytes.subarray(start);
    return start === 0 ? null : bytes.subarray(0, start);
  }

  /** An event that only lacks its blank line counts; half of one goes out behind a whole reply alone. */
  flush(): Buffer | null {
    const rest = this.#held;
    this.#held = null;
    if (!rest) return null;
    const event = rest.toString('latin1');
    const isWhole = isJson(dataOf(event));
    if (isWhole && this.inspect(event)) this.#dataEvents++;
    if (!isWhole && !this.complete) return null;
    this.#insideEvent = isWhole;
    return rest;
  }

  get countedTokens(): number {
    return this.output.tokens;
  }

  get dataEvents(): number {
    return this.#dataEvents;
  }

  get insideEvent(): boolean {
    return this.#insideEvent;
  }
}

function isJson(data: string | null): boolean {
  if (data === null) return false;
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}
