import { DESCRIPTIONS, decimal, groupBy, type LedgerEntry, partsOf, rawNumber } from './ledger.ts';

/** OpenAI's reports of one time bucket, from the ledger's entries in it. */

type Query = URLSearchParams;
type Results = (entries: readonly LedgerEntry[], query: Query) => unknown[];

const PART_NAMES: Record<string, string> = {
  input: 'input',
  cache_read: 'cached input',
  cache_write_5m: 'cache write',
  output: 'output',
  // Billed as output.
  reasoning: 'output',
  audio_input: 'audio input',
  audio_output: 'audio output',
  image_input: 'image input',
  image_output: 'image output',
};

const isGrouped = (query: Query, field: string): boolean =>
  [...query.getAll('group_by'), ...query.getAll('group_by[]')].includes(field);

/** `/organization/costs` */
export const costs: Results = (entries, query) => {
  const items = entries.flatMap((entry) => [
    ...partsOf(entry).map(([part, { cost }]) => {
      const name = PART_NAMES[part];
      return { entry, item: name === undefined ? entry.model : `${entry.model}, ${name}`, cost };
    }),
    ...(entry.adjustment
      ? [{ entry, item: DESCRIPTIONS[entry.adjustment.kind], cost: entry.adjustment.cost }]
      : []),
  ]);
  const keyed = items.map(({ entry, item, cost }) => ({
    line_item: isGrouped(query, 'line_item') ? item : null,
    api_key_id: isGrouped(query, 'api_key_id') ? entry.credential : null,
    cost,
  }));
  return groupBy(keyed, ({ line_item, api_key_id }) => JSON.stringify([line_item, api_key_id])).map(
    (group) => ({
      object: 'organization.costs.result',
      amount: {
        value: rawNumber(
          decimal(
            group.reduce((sum, { cost }) => sum + cost, 0n),
            9,
          ),
        ),
        currency: 'usd',
      },
      line_item: group[0]?.line_item,
      project_id: null,
      api_key_id: group[0]?.api_key_id,
    }),
  );
};

const sumOf = (entries: readonly LedgerEntry[], ...names: string[]): number =>
  Number(
    entries
      .flatMap(partsOf)
      .filter(([part]) => names.includes(part))
      .reduce((sum, [, { quantity }]) => sum + quantity, 0n),
  );

/** Which report an entry's usage is in, by its last part. */
function reportOf({ model, parts }: LedgerEntry): string {
  if (parts.image) return 'images';
  if (parts.characters) return 'audio_speeches';
  if (parts.media_hour) return 'audio_transcriptions';
  return model.includes('embedding') ? 'embeddings' : 'completions';
}

/** `/organization/usage/{report}` */
export const usage =
  (report: string): Results =>
  (entries, query) => {
    const own = entries.filter((entry) => entry.requestId !== null && reportOf(entry) === report);
    const group = (entry: LedgerEntry) => ({
      model: isGrouped(query, 'model') ? entry.model : null,
      api_key_id: isGrouped(query, 'api_key_id') ? entry.credential : null,
      batch: isGrouped(query, 'batch') ? entry.serviceTier === 'batch' : null,
      service_tier: isGrouped(query, 'service_tier')
        ? entry.serviceTier === 'batch'
          ? 'default'
          : entry.serviceTier
        : null,
      project_id: null,
      user_id: null,
    });
    return groupBy(own, (entry) => JSON.stringify(group(entry))).map((items) => ({
      object: `organization.usage.${report}.result`,
      ...(items[0] === undefined ? {} : group(items[0])),
      num_model_requests: items.length,
      ...countsOf(report, items),
    }));
  };

function countsOf(report: string, items: readonly LedgerEntry[]): object {
  switch (report) {
    case 'images':
      return { images: sumOf(items, 'image') };
    case 'audio_speeches':
      return { characters: sumOf(items, 'characters') };
    case 'audio_transcriptions':
      return { seconds: sumOf(items, 'media_hour') / 1_000 };
    case 'embeddings':
      return { input_tokens: sumOf(items, 'input') };
    default: {
      const uncached = sumOf(items, 'input', 'audio_input', 'image_input');
      const [cached, written] = [sumOf(items, 'cache_read'), sumOf(items, 'cache_write_5m')];
      const text = sumOf(items, 'output', 'reasoning');
      return {
        input_tokens: uncached + cached + written,
        input_uncached_tokens: uncached,
        input_cached_tokens: cached,
        input_cache_write_tokens: written,
        input_text_tokens: sumOf(items, 'input'),
        input_audio_tokens: sumOf(items, 'audio_input'),
        input_image_tokens: sumOf(items, 'image_input'),
        output_tokens: text + sumOf(items, 'audio_output', 'image_output'),
        output_text_tokens: text,
        output_audio_tokens: sumOf(items, 'audio_output'),
        output_image_tokens: sumOf(items, 'image_output'),
      };
    }
  }
}
