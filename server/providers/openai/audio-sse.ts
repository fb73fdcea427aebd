import type { Usage } from '#db/money.ts';
import { ReplyRecord } from '#server/providers/openai/reply-record.ts';
import { asRecord } from '#server/wire/counts.ts';
import { type Inspected, PassthroughSse } from '#server/wire/passthrough-sse.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import { dataOf, type PromptUsage } from '#server/wire/sse.ts';

const DELTA = /"type": ?"(?:transcript\.text|speech\.audio)\.delta"/;
const DELTA_TEXT = /"delta": ?"((?:[^"\\]|\\.)*)"/;
/** Events that may be the last one, or contain an error. A literal of JSON can't hold bare quotes. */
const TERMINAL = /"type": ?"(?:transcript\.text\.done|speech\.audio\.done|error)"|"error": ?[{"]/;

/** A streamed transcript, or speech as events: the last event has its usage. Pure. */
export class AudioSse extends PassthroughSse {
  readonly #record = new ReplyRecord();
  #isDone = false;
  #failed = false;

  get usage(): Usage | null {
    return this.#record.usage;
  }

  get promptUsage(): PromptUsage | null {
    return this.#record.promptUsage;
  }

  get isImplausible(): boolean {
    return this.#record.isImplausible;
  }

  get facts(): Readonly<ReplyFacts> {
    return this.#record.facts;
  }

  get complete(): boolean {
    return this.#isDone;
  }

  get failed(): boolean {
    return this.#failed;
  }

  protected inspect(event: string): Inspected {
    if (!event.includes('data:')) return 'no_data';
    if (DELTA.test(event)) this.output.add(DELTA_TEXT.exec(event)?.[1]?.length ?? 0);
    else if (TERMINAL.test(event)) this.#end(dataOf(event));
    return 'progress';
  }

  protected override isWhole(event: string): boolean {
    return dataOf(event)?.trim() === '[DONE]' || super.isWhole(event);
  }

  #end(data: string | null): void {
    const last = recordOrNull(data);
    const type = last?.['type'];
    if (type === 'transcript.text.done' || type === 'speech.audio.done') {
      this.#isDone = true;
      this.#record.report(last?.['usage']);
    } else if (type === 'error' || last?.['error']) this.#failed = true;
  }
}

function recordOrNull(data: string | null): Record<string, unknown> | null {
  try {
    return asRecord(JSON.parse(data ?? ''));
  } catch {
    return null;
  }
}
