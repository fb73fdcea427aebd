import { z } from 'zod';
import type { PricedPart } from '#db/pricing/parts.ts';
import { type BillCollector, currencyOf, EMPTY_LINE } from '#db/reconcile/bill/collector.ts';
import { parseScaled } from '#db/reconcile/bill/decimal.ts';
import {
  type Bucket,
  DecimalText,
  NameText,
  parseAt,
  resultsOf,
  WholeNumber,
} from '#db/reconcile/bill/json.ts';
import { kindOf } from '#db/reconcile/bill/kind.ts';

/**
 * OpenAI's `GET /v1/organization/costs`: costs of each UTC day, grouped by line item and API key. A line item
 * is a model and a part, such as `gpt-5.2, cached input`, or another product. Pure.
 */

const Result = z.object({
  object: z.string(),
  amount: z.object({ value: DecimalText, currency: z.string() }),
  line_item: NameText,
  api_key_id: NameText,
  quantity: DecimalText.nullish(),
});

const PARTS: { readonly [Name in string]?: PricedPart } = {
  input: 'input',
  'cached input': 'cache_read',
  'cache write': 'cache_write_5m',
  output: 'output',
  'audio input': 'audio_input',
  'audio output': 'audio_output',
  'image input': 'image_input',
  'image output': 'image_output',
};

export function readOpenAiCosts(pages: readonly unknown[], collector: BillCollector): void {
  for (const { place, from, to, result } of resultsOf(pages, 'costs', collector, openAiBucket)) {
    const { amount, line_item, api_key_id, quantity } = parseAt(Result, result, place);
    const currency = currencyOf(place, amount.currency);
    const cost = collector.cost(place, amount.value, currency);
    const kind = kindOf(line_item ?? '', cost);
    const { model, part } = splitLineItem(line_item);
    const units = quantity === null || quantity === undefined ? null : parseScaled(quantity, 0);
    if (quantity !== null && quantity !== undefined && (part === null || units === null))
      collector.unsupported(
        place,
        `The unit of the quantity ${quantity} of "${line_item ?? ''}" is not known; its cost is imported.`,
      );
    collector.add({
      ...EMPTY_LINE,
      place,
      kind,
      from,
      to,
      // A line item that is not a model's part, such as "Promotional credit", names no model.
      model: kind === 'usage' || part !== null ? model : null,
      credential: api_key_id,
      part,
      quantity: part === null ? null : units,
      cost,
      currency,
    });
  }
}

/** The model and part of a line item; one of another form is a model's or product's name. */
function splitLineItem(item: string | null): { model: string | null; part: PricedPart | null } {
  const at = item?.lastIndexOf(', ') ?? -1;
  const part = PARTS[item?.slice(at + 2).toLowerCase() ?? ''];
  return at > 0 && part !== undefined
    ? { model: item?.slice(0, at) ?? null, part }
    : { model: item, part: null };
}

const OpenAiBucket = z.object({
  start_time: WholeNumber,
  end_time: WholeNumber,
  results: z.array(z.unknown()),
});

/** A bucket of OpenAI's reports, whose times are seconds since 1970. */
export function openAiBucket(value: unknown, place: string): Bucket {
  const { start_time, end_time, results } = parseAt(OpenAiBucket, value, place);
  return {
    from: new Date(Number(start_time) * 1_000),
    to: new Date(Number(end_time) * 1_000),
    results,
  };
}
