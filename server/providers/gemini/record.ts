import type { Usage } from '#db/money.ts';
import { type GeminiUsage, parseGeminiUsage } from '#server/providers/gemini/usage.ts';
import { asRecord } from '#server/wire/counts.ts';
import { modelText, NO_FACTS, providerText, type ReplyFacts } from '#server/wire/reply-facts.ts';
import type { PromptUsage } from '#server/wire/sse.ts';

/** What the responses of one reply report and state, taken as they come. Pure. */
export class GeminiRecord {
  readonly facts: ReplyFacts = { ...NO_FACTS };
  #value: unknown = null;
  #parsed: GeminiUsage | null = null;

  /** Takes a report of usage; of several the last counts. */
  report(value: unknown): void {
    if (!asRecord(value)) return;
    this.#value = value;
    this.#parsed = null;
    this.facts.serviceTier = providerText(asRecord(value)?.['serviceTier']) ?? this.facts.serviceTier;
  }

  /** Takes what a response says of itself; members that it lacks stay as they are. */
  state(response: Record<string, unknown>): void {
    const { facts } = this;
    facts.providerRequest ??= providerText(response['responseId']);
    facts.answeredModel ??= modelText(response['modelVersion']);
    const reason =
      asRecord(candidatesIn(response)[0])?.['finishReason'] ??
      asRecord(response['promptFeedback'])?.['blockReason'];
    if (providerText(reason) === null) return;
    facts.finishReason = providerText(reason);
    this.#parsed = null;
  }

  /** The size of the calls in a response. */
  callBytes(response: Record<string, unknown>): number {
    return candidatesIn(response)
      .flatMap((candidate) => {
        const parts = asRecord(asRecord(candidate)?.['content'])?.['parts'];
        return Array.isArray(parts) ? (parts as unknown[]) : [];
      })
      .map((part) => asRecord(asRecord(part)?.['functionCall'])?.['args'])
      .reduce<number>((sum, args) => sum + (args === undefined ? 0 : JSON.stringify(args).length), 0);
  }

  get isEnded(): boolean {
    return this.facts.finishReason !== null;
  }

  get usage(): Usage | null {
    return this.#all.usage;
  }

  get promptUsage(): PromptUsage | null {
    return this.#all.promptUsage;
  }

  get isImplausible(): boolean {
    return this.#all.isImplausible;
  }

  get #all(): GeminiUsage {
    return (this.#parsed ??= parseGeminiUsage(this.#value, this.isEnded));
  }
}

function candidatesIn(response: Record<string, unknown>): unknown[] {
  const { candidates } = response;
  return Array.isArray(candidates) ? (candidates as unknown[]) : [];
}
