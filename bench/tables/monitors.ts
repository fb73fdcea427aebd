import type { CompiledQuery } from 'kysely';
import type { ClientBase } from 'pg';
import { dueKeys, FIRST_DUE, nextKey } from '../../worker/tasks/expire-keys.ts';
import { unpublished } from '../../worker/tasks/publish-checkpoint.ts';
import { usageBuckets } from '#db/forecast/read-history.ts';
import { usedBudgets } from '../../worker/tasks/watch-budgets.ts';
import { notableHours } from '../../worker/tasks/watch-usage.ts';
import { changedQuotas } from '../../worker/tasks/watch-quotas.ts';
import { selectUnprojected } from '#db/projections/state.ts';
import { endingKeys, upstreamFigures } from '../../worker/tasks/watch-service.ts';

/** One query that a worker repeats for as long as it runs. Its cost must not grow with the history. */
export type Monitor = {
  /** The task, and which of its queries. */
  name: string;
  query: Pick<CompiledQuery, 'sql' | 'parameters'>;
  /** The indexes that it must use with a condition; the name of the partition is left out. */
  indexes: readonly string[];
};

export const MONITORS: readonly Monitor[] = [
  {
    name: 'watch_upstreams',
    query: upstreamFigures().compile(),
    indexes: ['request_accepted_at_idx'],
  },
  { name: 'watch_keys', query: endingKeys(7).compile(), indexes: ['key_expires'] },
  { name: 'watch_projections', query: selectUnprojected().compile(), indexes: ['log_batch_pkey'] },
  {
    name: 'watch_quotas, nothing new',
    query: changedQuotas('quota', '1000000000000', '1000000001000').compile(),
    indexes: ['quota_window_position'],
  },
  {
    name: 'watch_quotas, first run',
    query: changedQuotas('quota', '0', '1000000001000').compile(),
    indexes: ['quota_window_position'],
  },
  {
    name: 'watch_quotas, end users',
    query: changedQuotas('quota_apart', '0', '1000000001000').compile(),
    indexes: ['quota_window_near'],
  },
  {
    name: 'watch_budgets',
    query: usedBudgets().compile(),
    indexes: ['quota_window_begin', 'alert_topic_ordinal_key'],
  },
  { name: 'watch_usage', query: notableHours().compile(), indexes: ['usage_history_hour'] },
  {
    name: 'watch_usage, history',
    query: usageBuckets(['key/Key00001'], 'hour', { fromMs: 0, toMs: 1_000_000 }).compile(),
    indexes: ['usage_history_pkey'],
  },
  { name: 'expire_keys, due', query: dueKeys(FIRST_DUE).compile(), indexes: ['key_expires'] },
  { name: 'expire_keys, next', query: nextKey().compile(), indexes: ['key_expires'] },
  {
    name: 'publish_checkpoint',
    query: unpublished().compile(),
    indexes: ['checkpoint_pkey', 'log_batch_pkey'],
  },
];

/** How a query ran: the indexes that it used with a condition, and the rows that it threw away. */
export type Explained = { indexes: string[]; ms: number; removed: number };

type Node = {
  'Index Name'?: string;
  'Index Cond'?: string;
  'Rows Removed by Filter'?: number;
  'Actual Loops'?: number;
  Plans?: Node[];
};

/** Runs the query once, and reads its plan. */
export async function explainMonitor(client: ClientBase, { query }: Monitor): Promise<Explained> {
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Node; 'Execution Time': number }] }>(
    `explain (analyze, format json) ${query.sql}`,
    [...query.parameters],
  );
  const [{ Plan: plan, 'Execution Time': ms }] = (rows[0] as (typeof rows)[number])['QUERY PLAN'];
  const nodes = flatten(plan);
  return {
    // An index of a partition is named after its partition.
    indexes: [
      ...new Set(
        nodes.flatMap((node) =>
          node['Index Cond'] === undefined
            ? []
            : [(node['Index Name'] ?? '').replace(/_(?:\d+|default)(?=_)/, '')],
        ),
      ),
    ],
    ms,
    removed: nodes.reduce(
      (sum, node) => sum + (node['Rows Removed by Filter'] ?? 0) * (node['Actual Loops'] ?? 1),
      0,
    ),
  };
}

const flatten = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(flatten)];
