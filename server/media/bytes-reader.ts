import { NOTHING_TO_REDACT, type Redactor } from '#server/wire/redactor.ts';
import { NO_FACTS } from '#server/wire/reply-facts.ts';
import type { SseReader } from '#server/wire/sse.ts';

/**
 * A reply that is neither JSON nor events, such as audio: its bytes are relayed as they come, without the
 * upstream's credentials. It reports no usage, and is complete when its connection ends it. Pure.
 */
export class BytesReader implements SseReader {
  readonly usage = null;
  readonly promptUsage = null;
  readonly isImplausible = false;
  readonly facts = NO_FACTS;
  readonly countedTokens = 0;
  readonly failed = false;
  /** No comment of the relay's may stand between its bytes. */
  readonly insideEvent = true;
  readonly #redactor: Redactor;
  /** The end of the bytes so far, in which a secret may begin. */
  #held = '';
  #chunks = 0;
  #isComplete = false;

  constructor(redactor: Redactor = NOTHING_TO_REDACT) {
    this.#redactor = redactor;
  }

  get dataEvents(): number {
    return this.#chunks;
  }

  get complete(): boolean {
    return this.#isComplete;
  }

  push(chunk: Buffer): Buffer | null {
    this.#chunks++;
    if (this.#redactor.longest === 0) return chunk;
    const text = this.#redactor.text(this.#held + chunk.toString('latin1'));
    const end = Math.max(0, text.length - this.#redactor.longest);
    this.#held = text.slice(end);
    return end === 0 ? null : Buffer.from(text.slice(0, end), 'latin1');
  }

  flush(): Buffer | null {
    this.#isComplete = true;
    const rest = this.#held;
    this.#held = '';
    return rest === '' ? null : Buffer.from(rest, 'latin1');
  }
}
