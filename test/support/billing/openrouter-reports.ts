import { costOf, dayStart, decimal, groupBy, type LedgerEntry, partsOf, rawNumber } from './ledger.ts';

/** OpenRouter's activity and its export, from a ledger's entries. */

const sumOf = (entries: readonly LedgerEntry[], ...names: string[]): bigint =>
  entries
    .flatMap(partsOf)
    .filter(([part]) => names.includes(part))
    .reduce((sum, [, { quantity }]) => sum + quantity, 0n);

const INPUT = ['input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'audio_input', 'image_input'];
const OUTPUT = ['output', 'reasoning', 'audio_output', 'image_output'];

/** `/activity`: by day and model. It has no place for adjustments, which must not be in the ledger. */
export function activity(entries: readonly LedgerEntry[], offsetMs: number): unknown[] {
  const days = groupBy(entries, ({ at, model }) => JSON.stringify([dayStart(at, offsetMs), model]));
  return days.map((items) => {
    const [first] = items;
    return {
      date: new Date(dayStart(first?.at ?? 0, offsetMs) - offsetMs).toISOString().slice(0, 10),
      model: first?.model,
      model_permaslug: first?.model,
      endpoint_id: '550e8400-e29b-41d4-a716-446655440000',
      provider_name: 'Scripted',
      usage: rawNumber(
        decimal(
          items.reduce((sum, each) => sum + costOf(each), 0n),
          9,
        ),
      ),
      byok_usage_inference: 0,
      requests: items.length,
      prompt_tokens: Number(sumOf(items, ...INPUT)),
      completion_tokens: Number(sumOf(items, ...OUTPUT)),
      reasoning_tokens: Number(sumOf(items, 'reasoning')),
    };
  });
}

const COLUMNS = [
  'generation_id',
  'created_at',
  'cost_total',
  'cost_web_search',
  'cost_cache',
  'cost_file_processing',
  'byok_usage_inference',
  'tokens_prompt',
  'tokens_completion',
  'tokens_reasoning',
  'tokens_cached',
  'model_permaslug',
  'provider_name',
  'variant',
  'cancelled',
  'streamed',
  'user',
  'finish_reason_raw',
  'finish_reason_normalized',
  'generation_time_ms',
  'time_to_first_token_ms',
  'api_key_disabled',
  'api_key_name',
  'app_name',
];

/** The CSV file of the activity page: each generation with its id. */
export function openRouterExport(entries: readonly LedgerEntry[]): string {
  const rows = entries.map((entry) => {
    const cells: Record<string, string> = {
      generation_id: entry.requestId ?? '',
      created_at: entry.at.toISOString().replace('T', ' ').replace('Z', ''),
      cost_total: decimal(costOf(entry), 9),
      byok_usage_inference: '0',
      tokens_prompt: String(sumOf([entry], ...INPUT)),
      tokens_completion: String(sumOf([entry], ...OUTPUT)),
      tokens_reasoning: String(sumOf([entry], 'reasoning')),
      tokens_cached: String(sumOf([entry], 'cache_read')),
      model_permaslug: entry.model,
      variant: 'standard',
      api_key_name: entry.credential,
    };
    return COLUMNS.map((name) => `"${(cells[name] ?? '').replaceAll('"', '""')}"`);
  });
  return [COLUMNS.join(','), ...rows.map((row) => row.join(','))].map((line) => `${line}\n`).join('');
}
