import type { Usage } from '#db/money.ts';
import { asRecord } from '#server/wire/counts.ts';
import { addToolUsage } from '#server/providers/openai/response-parts.ts';
import { statedCost } from '#server/providers/openai/usage-details.ts';
import { parsePromptUsage, parseUsage } from '#server/providers/openai/usage.ts';
import { modelText, NO_FACTS, providerText, type ReplyFacts } from '#server/wire/reply-facts.ts';
import type { PromptUsage } from '#server/wire/sse.ts';

/** What the objects of one reply report and state, taken as they come. Pure. */
export class ReplyRecord {
  readonly facts: ReplyFacts = { ...NO_FACTS };
  usage: Usage | null = null;
  /** Set by a report without the output; the usual one has both. */
  promptUsage: PromptUsage | null = null;
  isImplausible = false;

  /** Takes a report of usage; of several the last counts. A value that is no report changes nothing. */
  report(value: unknown): void {
    const parsed = parseUsage(value);
    if (parsed === null) {
      if (this.usage === null) this.promptUsage = parsePromptUsage(value) ?? this.promptUsage;
    } else {
      this.isImplausible = parsed === 'implausible';
      this.usage = parsed === 'implausible' ? null : parsed;
    }
    this.facts.statedCost = statedCost(value) ?? this.facts.statedCost;
    // OpenRouter reports the tier of the provider behind it here.
    this.facts.serviceTier = providerText(asRecord(value)?.['service_tier']) ?? this.facts.serviceTier;
  }

  /** Takes what the provider's own tools used beside the report, which must have been taken. */
  reportTools(output: unknown, toolUsage: unknown): void {
    if (this.usage === null || addToolUsage(this.usage, output, toolUsage)) return;
    this.isImplausible = true;
    this.usage = null;
  }

  /** Takes the id, the model and the service tier of an object; those that it lacks stay as they are. */
  state({ id, model, service_tier: tier }: { id?: unknown; model?: unknown; service_tier?: unknown }): void {
    const { facts } = this;
    facts.providerRequest = providerText(id) ?? facts.providerRequest;
    facts.answeredModel = modelText(model) ?? facts.answeredModel;
    facts.serviceTier = providerText(tier) ?? facts.serviceTier;
  }
}
