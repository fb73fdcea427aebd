import { DESCRIPTIONS, decimal, groupBy, type LedgerEntry, partsOf } from './ledger.ts';

/** Anthropic's reports of one time bucket, from the ledger's entries in it. */

type Query = URLSearchParams;
const isGrouped = (query: Query, field: string): boolean => query.getAll('group_by[]').includes(field);

const sumOf = (entries: readonly LedgerEntry[], ...names: string[]): number =>
  Number(
    entries
      .flatMap(partsOf)
      .filter(([part]) => names.includes(part))
      .reduce((sum, [, { quantity }]) => sum + quantity, 0n),
  );

/** `/organizations/usage_report/messages` */
export function messagesUsage(entries: readonly LedgerEntry[], query: Query): unknown[] {
  const group = (entry: LedgerEntry) => ({
    model: isGrouped(query, 'model') ? entry.model : null,
    api_key_id: isGrouped(query, 'api_key_id') ? entry.credential : null,
    service_tier: isGrouped(query, 'service_tier') ? entry.serviceTier : null,
    workspace_id: null,
    context_window: null,
  });
  const requests = entries.filter(({ requestId }) => requestId !== null);
  return groupBy(requests, (entry) => JSON.stringify(group(entry))).map((items) => ({
    ...(items[0] === undefined ? {} : group(items[0])),
    uncached_input_tokens: sumOf(items, 'input'),
    cache_creation: {
      ephemeral_5m_input_tokens: sumOf(items, 'cache_write_5m'),
      ephemeral_1h_input_tokens: sumOf(items, 'cache_write_1h'),
    },
    cache_read_input_tokens: sumOf(items, 'cache_read'),
    output_tokens: sumOf(items, 'output', 'reasoning'),
    server_tool_use: { web_search_requests: sumOf(items, 'web_search') },
  }));
}

const TOKEN_TYPES: Record<string, string> = {
  input: 'uncached_input_tokens',
  cache_read: 'cache_read_input_tokens',
  cache_write_5m: 'cache_creation.ephemeral_5m_input_tokens',
  cache_write_1h: 'cache_creation.ephemeral_1h_input_tokens',
  output: 'output_tokens',
  // Billed as output.
  reasoning: 'output_tokens',
};

/** `/organizations/cost_report`, whose amounts are decimal strings of cents. */
export function costReport(entries: readonly LedgerEntry[], query: Query): unknown[] {
  const lines = entries.flatMap((entry) => [
    ...partsOf(entry).map(([part, { cost }]) => ({ about: describe(entry, part), cost })),
    ...(entry.adjustment
      ? [
          {
            about: { ...NOTHING, description: DESCRIPTIONS[entry.adjustment.kind] },
            cost: entry.adjustment.cost,
          },
        ]
      : []),
  ]);
  const shown = isGrouped(query, 'description') ? lines : lines.map(({ cost }) => ({ about: NOTHING, cost }));
  return groupBy(shown, ({ about }) => JSON.stringify(about)).map((group) => ({
    ...group[0]?.about,
    amount: decimal(
      group.reduce((sum, { cost }) => sum + cost, 0n),
      7,
    ),
    currency: 'USD',
    workspace_id: null,
    context_window: null,
  }));
}

type Described = {
  cost_type: string | null;
  description: string | null;
  model: string | null;
  service_tier: string | null;
  token_type: string | null;
};
const NOTHING: Described = {
  cost_type: null,
  description: null,
  model: null,
  service_tier: null,
  token_type: null,
};

function describe({ model, serviceTier }: LedgerEntry, part: string): Described {
  const token_type = TOKEN_TYPES[part];
  if (token_type === undefined) return { ...NOTHING, cost_type: part, description: `Usage - ${part}` };
  return {
    cost_type: 'tokens',
    description: `${model} Usage - ${token_type}`,
    model,
    service_tier: serviceTier,
    token_type,
  };
}
