import { readAnthropicCosts, readAnthropicUsage } from '#db/reconcile/bill/anthropic.ts';
import type { BillCollector } from '#db/reconcile/bill/collector.ts';
import { readOpenAiCosts } from '#db/reconcile/bill/openai-costs.ts';
import {
  OPENAI_USAGE_REPORTS,
  type OpenAiUsageReport,
  readOpenAiUsage,
} from '#db/reconcile/bill/openai-usage.ts';
import { readOpenRouterActivity } from '#db/reconcile/bill/openrouter.ts';

/** The reports that make up a provider's bill: how they are requested, and how their pages are read. Pure. */

/** Providers whose bills can be fetched. */
export const BILLING_APIS = ['openai', 'anthropic', 'openrouter'] as const;
export type BillingApiName = (typeof BILLING_APIS)[number];

export type Query = readonly (readonly [name: string, value: string])[];

export type Report = {
  /** Below the upstream's base URL. */
  path: string;
  /** The first request of each series of pages. */
  queries: readonly Query[];
  /** Whether pages have a cursor to the next one. */
  isPaged: boolean;
  read(pages: readonly unknown[], collector: BillCollector): void;
};

const DAY_MS = 24 * 60 * 60 * 1_000;

/** @param from both are midnights of UTC. */
export function reportsOf(name: BillingApiName, from: Date, to: Date): Report[] {
  switch (name) {
    case 'openai':
      return openAiReports(from, to);
    case 'anthropic':
      return anthropicReports(from, to);
    case 'openrouter':
      return [
        {
          path: '/activity',
          queries: daysBetween(from, to).map((date) => [['date', date]]),
          isPaged: false,
          read: readOpenRouterActivity,
        },
      ];
  }
}

/** The fields by which a report of usage can be grouped. Others reject them. */
const OPENAI_GROUPS: { readonly [Name in OpenAiUsageReport]: readonly string[] } = {
  completions: ['model', 'api_key_id', 'service_tier', 'batch'],
  embeddings: ['model', 'api_key_id'],
  moderations: ['model', 'api_key_id'],
  images: ['model', 'api_key_id'],
  audio_speeches: ['model', 'api_key_id'],
  audio_transcriptions: ['model', 'api_key_id'],
  vector_stores: [],
  code_interpreter_sessions: [],
};

function openAiReports(from: Date, to: Date): Report[] {
  const query = (limit: number, groups: readonly string[]): Query[] => [
    [
      ['start_time', String(+from / 1_000)],
      ['end_time', String(+to / 1_000)],
      ['bucket_width', '1d'],
      ['limit', String(limit)],
      ...groups.map((group) => ['group_by', group] as const),
    ],
  ];
  return [
    {
      path: '/organization/costs',
      queries: query(180, ['line_item', 'api_key_id']),
      isPaged: true,
      read: readOpenAiCosts,
    },
    ...OPENAI_USAGE_REPORTS.map((name) => ({
      path: `/organization/usage/${name}`,
      queries: query(31, OPENAI_GROUPS[name]),
      isPaged: true,
      read: (pages: readonly unknown[], collector: BillCollector) =>
        readOpenAiUsage(`usage/${name}`, pages, collector),
    })),
  ];
}

function anthropicReports(from: Date, to: Date): Report[] {
  const query = (groups: readonly string[]): Query[] => [
    [
      ['starting_at', from.toISOString().replace('.000Z', 'Z')],
      ['ending_at', to.toISOString().replace('.000Z', 'Z')],
      ['bucket_width', '1d'],
      ['limit', '31'],
      ...groups.map((group) => ['group_by[]', group] as const),
    ],
  ];
  return [
    {
      path: '/organizations/cost_report',
      queries: query(['description']),
      isPaged: true,
      read: readAnthropicCosts,
    },
    {
      path: '/organizations/usage_report/messages',
      queries: query(['model', 'api_key_id', 'service_tier']),
      isPaged: true,
      read: readAnthropicUsage,
    },
  ];
}

function daysBetween(from: Date, to: Date): string[] {
  const days: string[] = [];
  for (let at = +from; at < +to; at += DAY_MS) days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}
