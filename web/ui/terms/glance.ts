import type { KeyTerms } from '#db/events/events.ts';
import { showCounted, showShort } from '../../lib/format/show.ts';
import { ENFORCEMENT_NOTES, noted, showLimit } from './limit-words.ts';

/** Short labels for a table row. */
export function glanceAtTerms({
  models,
  routes,
  origins,
  networks,
  requests_per_minute,
  tokens_per_minute,
  concurrent_requests,
  observe = [],
  quotas,
}: KeyTerms): string[] {
  const count = (list: readonly unknown[] | undefined, one: string): string[] =>
    list === undefined ? [] : [showCounted(list.length, one)];
  return [
    ...(models?.length === 1 ? [models[0] ?? ''] : count(models, 'model')),
    ...count(routes, 'route'),
    ...count(origins, 'origin'),
    ...count(networks, 'network'),
    ...(requests_per_minute === undefined
      ? []
      : [`${showShort(requests_per_minute)} requests/min${noted('requests_per_minute', observe)}`]),
    ...(tokens_per_minute === undefined
      ? []
      : [`${showShort(tokens_per_minute)} tokens/min${noted('tokens_per_minute', observe)}`]),
    ...(concurrent_requests === undefined
      ? []
      : [`${showShort(concurrent_requests)} concurrent${noted('concurrent_requests', observe)}`]),
    ...(quotas ?? []).map((quota) =>
      [
        `${showLimit(quota)}/${quota.window}`,
        ...(quota.enforcement === 'observe' ? ENFORCEMENT_NOTES.observe : []),
      ].join(' '),
    ),
  ];
}
