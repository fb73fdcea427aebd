import { z } from 'zod';
import { BillCollector, EMPTY_LINE } from '#db/reconcile/bill/collector.ts';
import { csvRecords } from '#db/reconcile/bill/csv-records.ts';
import { dayOf, momentOf } from '#db/reconcile/bill/days.ts';
import { parseScaled } from '#db/reconcile/bill/decimal.ts';
import { BillFormatError, quoted } from '#db/reconcile/bill/format-error.ts';
import { DecimalText, NameText, parseAt, WholeNumber } from '#db/reconcile/bill/json.ts';
import type { BillLine } from '#db/reconcile/bill/line.ts';

/**
 * OpenRouter's activity: by UTC day, model and endpoint from its API, by generation from its export. Costs
 * are in dollars. Input includes cached tokens, and completion tokens include reasoning tokens. Pure.
 */

const Activity = z.object({ data: z.array(z.unknown()) });
const Item = z.object({
  date: z.string(),
  model: NameText,
  usage: DecimalText,
  byok_usage_inference: DecimalText.nullish(),
  requests: WholeNumber,
  prompt_tokens: WholeNumber,
  completion_tokens: WholeNumber,
  reasoning_tokens: WholeNumber.nullish(),
});

/** `GET /api/v1/activity`. It doesn't state API keys. */
export function readOpenRouterActivity(pages: readonly unknown[], collector: BillCollector): void {
  for (const [index, page] of pages.entries()) {
    const pagePlace = `activity page ${index + 1}`;
    for (const [at, value] of parseAt(Activity, page, pagePlace).data.entries()) {
      const place = `${pagePlace} item ${at + 1}`;
      const item = parseAt(Item, value, place);
      const day = dayOf(item.date.replace(/[T ]00:00:00(?:\.0+)?Z?$/, ''), 'UTC', place);
      const line = { ...EMPTY_LINE, place, ...day, model: item.model };
      addUsage(collector, line, {
        cost: item.usage,
        ownKeyCost: item.byok_usage_inference ?? '0',
        requests: item.requests,
        input: item.prompt_tokens,
        output: item.completion_tokens,
        reasoning: item.reasoning_tokens ?? 0n,
      });
    }
  }
}

const COLUMNS = [
  'generation_id',
  'created_at',
  'cost_total',
  'tokens_prompt',
  'tokens_completion',
  'model_permaslug',
];

/** The CSV file that the activity page exports: each generation with its id and the name of its API key. */
export function readOpenRouterExport(text: string, collector: BillCollector): void {
  for (const { place, cells } of csvRecords(text, COLUMNS)) {
    const cell = (name: string): string => cells.get(name) ?? '';
    const count = (name: string): bigint => {
      const value = parseScaled(cell(name) || '0', 0);
      if (value === null || value < 0n)
        throw new BillFormatError(place, `"${name}": ${quoted(cell(name))} is not a whole number.`);
      return value;
    };
    const at = momentOf(cell('created_at'), 'UTC', place);
    const variant = cell('variant');
    const line = {
      ...EMPTY_LINE,
      place,
      from: at,
      to: at,
      model: cell('model_permaslug') + (variant === '' || variant === 'standard' ? '' : `:${variant}`),
      credential: cell('api_key_name') || null,
      requestId: cell('generation_id') || null,
    };
    addUsage(collector, line, {
      cost: cell('cost_total') || '0',
      ownKeyCost: cell('byok_usage_inference') || '0',
      requests: 1n,
      input: count('tokens_prompt'),
      output: count('tokens_completion'),
      reasoning: count('tokens_reasoning'),
    });
  }
}

type Usage = {
  cost: string;
  /** Of a provider's key that the customer brought: the provider bills it. */
  ownKeyCost: string;
  requests: bigint;
  input: bigint;
  output: bigint;
  reasoning: bigint;
};

function addUsage(
  collector: BillCollector,
  line: Omit<BillLine, 'part' | 'quantity' | 'requests' | 'cost'>,
  usage: Usage,
): void {
  const { place } = line;
  const { requests, input, output, reasoning } = usage;
  const cost = collector.cost(place, usage.cost, 'USD');
  collector.add({ ...line, part: null, quantity: null, requests, cost });
  const of = { ...line, requests: null, cost: null };
  if (input > 0n) collector.add({ ...of, part: 'input', quantity: input });
  if (reasoning > output)
    collector.unsupported(place, `It has ${reasoning} reasoning tokens within ${output} completion tokens.`);
  else {
    if (output > reasoning) collector.add({ ...of, part: 'output', quantity: output - reasoning });
    if (reasoning > 0n) collector.add({ ...of, part: 'reasoning', quantity: reasoning });
  }
  if (parseScaled(usage.ownKeyCost, 0) !== 0n)
    collector.unsupported(
      place,
      `The provider of your own key bills its ${usage.ownKeyCost} USD, not OpenRouter.`,
    );
}
