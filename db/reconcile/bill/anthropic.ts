import { z } from 'zod';
import type { PricedPart } from '#db/pricing/parts.ts';
import { type BillCollector, currencyOf, EMPTY_LINE } from '#db/reconcile/bill/collector.ts';
import {
  type Bucket,
  DecimalText,
  NameText,
  parseAt,
  resultsOf,
  WholeNumber,
} from '#db/reconcile/bill/json.ts';
import { kindOf } from '#db/reconcile/bill/kind.ts';

/** Anthropic's usage and cost reports of UTC days. Reasoning tokens are part of the output. Pure. */

const count = WholeNumber.nullish().transform((value) => value ?? 0n);
const Usage = z.object({
  model: NameText,
  api_key_id: NameText,
  service_tier: NameText,
  uncached_input_tokens: count,
  cache_read_input_tokens: count,
  cache_creation: z.object({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count }).nullish(),
  output_tokens: count,
  server_tool_use: z.object({ web_search_requests: count }).nullish(),
});

/** `GET /v1/organizations/usage_report/messages`, grouped by model, API key and service tier. */
export function readAnthropicUsage(pages: readonly unknown[], collector: BillCollector): void {
  const report = 'usage_report/messages';
  for (const { place, from, to, result } of resultsOf(pages, report, collector, anthropicBucket)) {
    const usage = parseAt(Usage, result, place);
    const { model, api_key_id: credential, service_tier: serviceTier } = usage;
    const parts: [PricedPart, bigint][] = [
      ['input', usage.uncached_input_tokens],
      ['cache_read', usage.cache_read_input_tokens],
      ['cache_write_5m', usage.cache_creation?.ephemeral_5m_input_tokens ?? 0n],
      ['cache_write_1h', usage.cache_creation?.ephemeral_1h_input_tokens ?? 0n],
      ['output', usage.output_tokens],
      ['web_search', usage.server_tool_use?.web_search_requests ?? 0n],
    ];
    for (const [part, quantity] of parts)
      if (quantity > 0n)
        collector.add({ ...EMPTY_LINE, place, from, to, model, credential, serviceTier, part, quantity });
  }
}

const Cost = z.object({
  amount: DecimalText,
  currency: z.string(),
  cost_type: NameText,
  description: NameText,
  model: NameText,
  service_tier: NameText,
  token_type: NameText,
});

const COST_PARTS: { readonly [Name in string]?: PricedPart } = {
  uncached_input_tokens: 'input',
  cache_read_input_tokens: 'cache_read',
  'cache_creation.ephemeral_5m_input_tokens': 'cache_write_5m',
  'cache_creation.ephemeral_1h_input_tokens': 'cache_write_1h',
  output_tokens: 'output',
  web_search: 'web_search',
};

/** `GET /v1/organizations/cost_report`, grouped by description. It doesn't state API keys. */
export function readAnthropicCosts(pages: readonly unknown[], collector: BillCollector): void {
  for (const { place, from, to, result } of resultsOf(pages, 'cost_report', collector, anthropicBucket)) {
    const line = parseAt(Cost, result, place);
    const currency = currencyOf(place, line.currency);
    // "123.45" in USD are 123.45 cents.
    const cost = collector.cost(place, line.amount, currency, -2);
    collector.add({
      ...EMPTY_LINE,
      place,
      kind: kindOf(line.description ?? '', cost),
      from,
      to,
      model: line.model,
      serviceTier: line.service_tier,
      part: COST_PARTS[line.token_type ?? line.cost_type ?? ''] ?? null,
      cost,
      currency,
    });
  }
}

const Instant = z.iso.datetime({ offset: true }).transform((text) => new Date(text));
const AnthropicBucket = z.object({ starting_at: Instant, ending_at: Instant, results: z.array(z.unknown()) });

function anthropicBucket(value: unknown, place: string): Bucket {
  const { starting_at: from, ending_at: to, results } = parseAt(AnthropicBucket, value, place);
  return { from, to, results };
}
