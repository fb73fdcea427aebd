import { z } from 'zod';
import type { PricedPart } from '#db/pricing/parts.ts';
import { type BillCollector, EMPTY_LINE } from '#db/reconcile/bill/collector.ts';
import { NameText, parseAt, resultsOf, WholeNumber } from '#db/reconcile/bill/json.ts';
import { openAiBucket } from '#db/reconcile/bill/openai-costs.ts';

/**
 * OpenAI's `GET /v1/organization/usage/…`: usage of each UTC day, grouped by model, API key, service tier and
 * batch. Reasoning tokens are part of the output. Pure.
 */

/** The reports, by the last part of their paths. */
export const OPENAI_USAGE_REPORTS = [
  'completions',
  'embeddings',
  'moderations',
  'images',
  'audio_speeches',
  'audio_transcriptions',
  'vector_stores',
  'code_interpreter_sessions',
] as const;
export type OpenAiUsageReport = (typeof OPENAI_USAGE_REPORTS)[number];

const count = WholeNumber.nullish().transform((value) => value ?? null);
const Result = z.object({
  object: z.string(),
  model: NameText,
  api_key_id: NameText,
  service_tier: NameText,
  batch: z.boolean().nullish(),
  num_model_requests: count,
  input_tokens: count,
  input_uncached_tokens: count,
  input_cached_tokens: count,
  input_cache_write_tokens: count,
  input_cache_write_12h_tokens: count,
  input_audio_tokens: count,
  input_image_tokens: count,
  output_tokens: count,
  output_text_tokens: count,
  output_audio_tokens: count,
  output_image_tokens: count,
  images: count,
  characters: count,
  seconds: count,
  usage_bytes: count,
  num_sessions: count,
});
type Result = z.infer<typeof Result>;

/** @param report its name in places: `usage/completions`. */
export function readOpenAiUsage(report: string, pages: readonly unknown[], collector: BillCollector): void {
  for (const { place, from, to, result } of resultsOf(pages, report, collector, openAiBucket)) {
    const usage = parseAt(Result, result, place);
    const group = {
      ...EMPTY_LINE,
      place,
      from,
      to,
      model: usage.model,
      credential: usage.api_key_id,
      serviceTier: usage.batch === true ? 'batch' : usage.service_tier,
    };
    const requests = usage.num_model_requests ?? 0n;
    if (requests > 0n) collector.add({ ...group, part: 'requests', quantity: requests, requests });
    const parts = partsOf(usage);
    if (parts === null)
      collector.unsupported(place, 'Its token classes add up to more than all of its input.');
    for (const [part, quantity] of parts ?? [])
      if (quantity > 0n) collector.add({ ...group, part, quantity });
    for (const reason of unsupportedOf(usage)) collector.unsupported(place, reason);
  }
}

/** The usage by parts; null where its classes contradict each other. */
function partsOf(usage: Result): [PricedPart, bigint][] | null {
  const input = textInputOf(usage);
  if (input < 0n) return null;
  return [
    ['input', input],
    ['cache_read', usage.input_cached_tokens ?? 0n],
    ['cache_write_5m', usage.input_cache_write_tokens ?? 0n],
    ['audio_input', usage.input_audio_tokens ?? 0n],
    ['image_input', usage.input_image_tokens ?? 0n],
    ['output', usage.output_text_tokens ?? usage.output_tokens ?? 0n],
    ['audio_output', usage.output_audio_tokens ?? 0n],
    ['image_output', usage.output_image_tokens ?? 0n],
    ['image', usage.images ?? 0n],
    ['characters', usage.characters ?? 0n],
    ['media_hour', (usage.seconds ?? 0n) * 1_000n],
  ];
}

/**
 * The text input that was neither read from a cache nor written to one. Where the uncached tokens are stated,
 * `input_tokens` are those of all modalities; before, they were text alone, with cached tokens.
 */
function textInputOf(usage: Result): bigint {
  if (usage.input_uncached_tokens === null)
    return (usage.input_tokens ?? 0n) - (usage.input_cached_tokens ?? 0n);
  return usage.input_uncached_tokens - (usage.input_audio_tokens ?? 0n) - (usage.input_image_tokens ?? 0n);
}

/** Units that no part has. Their cost is in the report of costs. */
function unsupportedOf(usage: Result): string[] {
  const units = [
    [usage.input_cache_write_12h_tokens, 'tokens written to a cache for 12 hours'],
    [usage.usage_bytes, 'bytes of vector stores'],
    [usage.num_sessions, 'sessions of the code interpreter'],
  ] as const;
  return units
    .filter(([quantity]) => quantity !== null && quantity > 0n)
    .map(([quantity, unit]) => `The usage of ${quantity} ${unit} has no unit here.`);
}
