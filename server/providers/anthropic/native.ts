import type { Usage } from '#db/money.ts';
import { SSE_EVENT_BYTES_MAX } from '#server/bounds.ts';
import { anyDelta, quickDelta } from '#server/providers/anthropic/delta.ts';
import { dataOf, eventEnds } from '#server/providers/anthropic/events.ts';
import { membersOf } from '#server/providers/anthropic/raw.ts';
import { laterOf, readTold, type Told, usageOf } from '#server/providers/anthropic/usage.ts';
import { Written } from '#server/providers/anthropic/written.ts';
import type { PromptUsage, SseReader } from '#server/providers/provider.ts';

/**
 * A streamed message on its way to a client that speaks Anthropic's protocol itself: the bytes go
 * through as they are, in whole events, and are looked at as they pass. Pure.
 */
export class NativeSse implements SseReader {
  readonly #written = new Written();
  #held: Buffer | null = null;
  #insideEvent = false;
  #prompt: Told | null = null;
  #told: Told | null = null;
  #isStopped = false;
  #failed = false;
  #dataEvents = 0;

  push(chunk: Buffer): Buffer | null {
    const bytes = this.#held ? Buffer.concat([this.#held, chunk]) : chunk;
    this.#held = null;
    const text = bytes.toString('latin1');
    let start = 0;
    for (const end of eventEnds(text)) {
      this.#look(text.slice(start, end));
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
    const isWhole = parsed(dataOf(event)) !== null;
    if (isWhole) this.#look(event);
    if (!isWhole && !this.#isStopped) return null;
    this.#insideEvent = isWhole;
    return rest;
  }

  get usage(): Usage | null {
    return this.#told && usageOf(this.#told);
  }

  get promptUsage(): PromptUsage | null {
    if (!this.#prompt) return null;
    const { input, cached } = usageOf(this.#prompt);
    return input > 0 ? { input, cached } : null;
  }

  get countedTokens(): number {
    return this.#written.tokens;
  }

  get dataEvents(): number {
    return this.#dataEvents;
  }

  get complete(): boolean {
    return this.#isStopped;
  }

  get failed(): boolean {
    return this.#failed;
  }

  get insideEvent(): boolean {
    return this.#insideEvent;
  }

  #look(event: string): void {
    const quick = quickDelta(event);
    if (quick) {
      this.#dataEvents++;
      return this.#written.add(quick.inside.length);
    }
    const members = parsed(dataOf(event));
    if (!members) return;
    const type = members.get('type');
    if (type !== '"ping"' || this.#prompt) this.#dataEvents++;
    switch (type) {
      case '"message_start"':
        this.#prompt ??= readTold(membersOf(members.get('message') ?? '').get('usage'));
        return;
      case '"content_block_delta"':
        return this.#written.add(anyDelta(members)?.inside.length ?? 0);
      case '"message_delta"': {
        const told = readTold(members.get('usage'));
        if (told) this.#told = laterOf(laterOf(this.#prompt, this.#told), told);
        return;
      }
      case '"message_stop"':
        this.#isStopped = true;
        return;
      case '"error"':
        this.#failed = true;
        return;
      default:
    }
  }
}

function parsed(data: string | null): ReadonlyMap<string, string> | null {
  if (data === null) return null;
  try {
    JSON.parse(data);
    return membersOf(data);
  } catch {
    return null;
  }
}
