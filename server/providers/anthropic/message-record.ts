import type { Usage } from '#db/money.ts';
import {
  mergeReported,
  parseReportedUsage,
  promptUsageOf,
  type ReportedUsage,
  usageOf,
} from '#server/providers/anthropic/usage.ts';
import { modelText, NO_FACTS, providerText, type ReplyFacts } from '#server/wire/reply-facts.ts';
import type { PromptUsage } from '#server/wire/sse.ts';

type Members = ReadonlyMap<string, string>;

/** What one message reports and states, taken as it comes; members are JSON as text. Pure. */
export class MessageRecord {
  readonly facts: ReplyFacts = { ...NO_FACTS };
  isImplausible = false;
  #prompt: ReportedUsage | null = null;
  #reported: ReportedUsage | null = null;

  /** Takes the message as it begins, with the usage of its prompt. */
  begin(message: Members): void {
    this.#state(message);
    this.#prompt ??= this.#parse(message.get('usage'));
  }

  /** Takes why the message ended, and its usage. */
  end(delta: Members, usage: string | undefined): void {
    this.facts.finishReason = providerText(stringOf(delta.get('stop_reason'))) ?? this.facts.finishReason;
    const reported = this.#parse(usage);
    if (reported) this.#reported = mergeReported(mergeReported(this.#prompt, this.#reported), reported);
  }

  /** Takes a whole message, whose usage counts only if it has an output. */
  whole(message: Members): void {
    this.begin(message);
    this.facts.finishReason = providerText(stringOf(message.get('stop_reason')));
    if (this.#prompt?.reportsOutput) this.#reported = this.#prompt;
  }

  /** Whether the message has begun with a usage. */
  get hasPrompt(): boolean {
    return this.#prompt !== null || this.isImplausible;
  }

  get reported(): ReportedUsage | null {
    return this.isImplausible ? null : this.#reported;
  }

  /** The newest report, which may be that of the prompt alone. */
  get latest(): ReportedUsage | null {
    return this.isImplausible ? null : (this.#reported ?? this.#prompt);
  }

  get usage(): Usage | null {
    return this.reported && usageOf(this.reported);
  }

  get promptUsage(): PromptUsage | null {
    return this.isImplausible ? null : promptUsageOf(this.#prompt);
  }

  #state(message: Members): void {
    this.facts.providerRequest ??= providerText(stringOf(message.get('id')));
    this.facts.answeredModel ??= modelText(stringOf(message.get('model')));
  }

  #parse(usage: string | undefined): ReportedUsage | null {
    const reported = parseReportedUsage(usage);
    if (reported === 'implausible') {
      this.isImplausible = true;
      return null;
    }
    if (reported?.tier) this.facts.serviceTier = reported.tier;
    return reported;
  }
}

/** The value of a JSON string; undefined: the text is another value. */
function stringOf(text: string | undefined): string | undefined {
  return text?.[0] === '"' ? (JSON.parse(text) as string) : undefined;
}
