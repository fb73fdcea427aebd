import type { Usage } from '#db/money.ts';
import { GeminiRecord } from '#server/providers/gemini/record.ts';
import { asRecord } from '#server/wire/counts.ts';
import { type Inspected, PassthroughSse } from '#server/wire/passthrough-sse.ts';
import { stringEnd } from '#server/wire/raw-json.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import { dataOf, type PromptUsage } from '#server/wire/sse.ts';

const TEXT = /"text": ?"/g;
/** Events that say more than text: how the reply ends, calls, errors. */
const SPECIAL = /"(?:finishReason|promptFeedback|functionCall|error)"/;

/**
 * A streamed reply of Gemini's `streamGenerateContent`: each event is a response with the next parts, and
 * most report the usage so far, of which only the last is parsed. Pure.
 */
export class GeminiSse extends PassthroughSse {
  readonly #record = new GeminiRecord();
  #hasBegun = false;
  #failed = false;
  /** The newest event with a usage; null: it was taken. */
  #reported: string | null = null;
  /** The spelling of the last delta that wasn't inspected, and whether such events report a usage. */
  #spelling: object | null = null;
  #hasReport = false;

  get usage(): Usage | null {
    return this.#taken.usage;
  }

  get promptUsage(): PromptUsage | null {
    return this.#taken.promptUsage;
  }

  get isImplausible(): boolean {
    return this.#taken.isImplausible;
  }

  get facts(): Readonly<ReplyFacts> {
    return this.#record.facts;
  }

  /** A reason why the model has ended. */
  get complete(): boolean {
    return this.#record.isEnded;
  }

  get failed(): boolean {
    return this.#failed;
  }

  get #taken(): GeminiRecord {
    if (this.#reported !== null) this.#record.report(asRecord(parsed(this.#reported))?.['usageMetadata']);
    this.#reported = null;
    return this.#record;
  }

  override passDelta(event: string, bytes: number, spelling: object | null): boolean {
    if (!super.passDelta(event, bytes, spelling)) return false;
    if (spelling === null || spelling !== this.#spelling) this.#hasReport = hasReport(event);
    this.#spelling = spelling;
    if (this.#hasReport) this.#reported = event;
    return true;
  }

  protected inspect(event: string): Inspected {
    if (!event.includes('data:')) return 'no_data';
    if (hasReport(event)) this.#reported = event;
    this.#countText(event);
    if (!this.#hasBegun || SPECIAL.test(event)) this.#lookAt(parsed(event));
    return 'progress';
  }

  #lookAt(value: unknown): void {
    const response = asRecord(value);
    if (!response) return;
    this.#hasBegun = true;
    if (asRecord(response['error'])) this.#failed = true;
    this.#record.state(response);
    this.output.add(this.#record.callBytes(response));
  }

  #countText(event: string): void {
    TEXT.lastIndex = 0;
    while (TEXT.test(event)) {
      const end = stringEnd(event, TEXT.lastIndex);
      this.output.add(end - TEXT.lastIndex);
      TEXT.lastIndex = end;
    }
  }
}

/** A literal can't hold these words in bare quotes. */
const hasReport = (event: string): boolean => event.includes('"usageMetadata"');

function parsed(event: string): unknown {
  try {
    return JSON.parse(dataOf(event) ?? '') as unknown;
  } catch {
    return null;
  }
}
