import type { Usage } from '#db/money.ts';
import { asRecord } from '#server/wire/counts.ts';
import { ReplyRecord } from '#server/providers/openai/reply-record.ts';
import { type Inspected, PassthroughSse } from '#server/wire/passthrough-sse.ts';
import type { Redactor } from '#server/wire/redactor.ts';
import { providerText, type ReplyFacts } from '#server/wire/reply-facts.ts';
import { dataOf, type PromptUsage } from '#server/wire/sse.ts';

/** How a searched member's value begins, whatever blanks the provider writes around the colon. */
const BLANKS_AND_COLON = /[\s:]*/y;

/** The members of a delta that carry what the model has written. */
const TEXT_MEMBERS = [
  '"content"',
  '"reasoning_content"',
  '"reasoning"',
  '"arguments"',
  '"refusal"',
  '"text"',
];

/**
 * Events that are parsed for the reply's id and model, at most: the first one mostly has both, and Azure's
 * first one has neither.
 */
const HEADS_READ_MAX = 3;

const DONE = /(^|[\r\n])data: ?\[DONE\]/;

/**
 * Reads a streamed chat completion as it passes: only its first event and those with usage or an error are
 * parsed. Pure.
 */
export class ChatSse extends PassthroughSse {
  readonly #stripUsage: boolean;
  readonly #record = new ReplyRecord();
  #headsRead = 0;
  #finished = false;
  #done = false;
  #failed = false;

  /** @param stripUsage whether a chunk that only carries usage is removed: only the relay requested it. */
  constructor(stripUsage: boolean, redactor?: Redactor) {
    super(redactor);
    this.#stripUsage = stripUsage;
  }

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

  /** A finish reason that is no error, or `[DONE]` without an error. */
  get complete(): boolean {
    return this.#finished || this.#done;
  }

  get failed(): boolean {
    return this.#failed;
  }

  protected override isWhole(event: string): boolean {
    return parseData(event) !== null || DONE.test(event);
  }

  protected inspect(event: string): Inspected {
    if (!event.startsWith('data') && !event.includes('\ndata') && !event.includes('\rdata')) return 'no_data';
    return this.#look(event) ? 'removed' : 'progress';
  }

  /** Inspects one event; returns whether it is to be removed. */
  #look(event: string): boolean {
    this.#countText(event);
    if (!this.#finished) this.#lookForFinish(event);
    // `[DONE]` must be the data itself: inside a string of a reply it means nothing. Some send it behind an
    // error, too.
    if (event.length < 64 && !this.#failed && DONE.test(event)) this.#done = true;
    const hasUsage = hasUsageObject(event);
    const isHead = this.#record.facts.answeredModel === null && this.#headsRead < HEADS_READ_MAX;
    if (!hasUsage && !isHead && !event.includes('"error"')) return false;
    this.#headsRead++;
    const data = parseData(event);
    if (!data) return false;
    this.#record.state(data);
    const groq = asRecord(data['x_groq']);
    if (
      hasError(data['error']) ||
      hasError(groq?.['error']) ||
      data['object'] === 'error' ||
      endsInError(data['choices'])
    )
      this.#failed = true;
    if (hasUsage) this.#record.report(data['usage'] ?? groq?.['usage'] ?? usageOfChoice(data['choices']));
    return hasUsage && this.#stripUsage && Array.isArray(data['choices']) && data['choices'].length === 0;
  }

  /** Looks for the reason why the reply has ended; with an error for a reason it has broken off. */
  #lookForFinish(event: string): void {
    const at = event.indexOf('"finish_reason"');
    if (at < 0) return;
    const quote = valueAt(event, at + '"finish_reason"'.length);
    if (event[quote] !== '"') return;
    this.#finished = !event.startsWith('"error"', quote);
    this.#record.facts.finishReason = providerText(event.slice(quote + 1, stringEnd(event, quote + 1)));
  }

  #countText(event: string): void {
    for (const member of TEXT_MEMBERS) {
      for (let at = event.indexOf(member); at >= 0; at = event.indexOf(member, at + member.length)) {
        const quote = valueAt(event, at + member.length);
        // As a value, such as the type of a part, the name precedes the member itself.
        if (event[quote] !== '"') continue;
        if (event[quote + 1] === '"') break;
        this.output.add(stringEnd(event, quote + 1) - quote - 1);
        return;
      }
    }
  }
}

/** The offset of a member's value, given the offset just after its name. */
function valueAt(text: string, at: number): number {
  BLANKS_AND_COLON.lastIndex = at;
  BLANKS_AND_COLON.test(text);
  return BLANKS_AND_COLON.lastIndex;
}

/** Whether it holds a usage object, at any depth: the usual member may be null, and another one be set. */
function hasUsageObject(event: string): boolean {
  for (let at = event.indexOf('"usage"'); at >= 0; at = event.indexOf('"usage"', at + 1)) {
    if (event[valueAt(event, at + '"usage"'.length)] === '{') return true;
  }
  return false;
}

/** An error as an object, or by its text alone. */
function hasError(error: unknown): boolean {
  return typeof error === 'string' ? error !== '' : typeof error === 'object' && error !== null;
}

/** Moonshot reports usage in the last chunk's choice. */
function usageOfChoice(choices: unknown): unknown {
  return Array.isArray(choices) ? asRecord(choices[0])?.['usage'] : null;
}

function endsInError(choices: unknown): boolean {
  return Array.isArray(choices) && choices.some((choice) => asRecord(choice)?.['finish_reason'] === 'error');
}

/** Where the string that begins at `from` ends, at its closing quote or with the text. */
function stringEnd(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text[at - 1 - backslashes] === '\\') backslashes++;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}

/** The JSON object that an event's data lines hold, if they do. */
function parseData(event: string): Record<string, unknown> | null {
  try {
    return asRecord(JSON.parse(dataOf(event) ?? ''));
  } catch {
    return null;
  }
}
