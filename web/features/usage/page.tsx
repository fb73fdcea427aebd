import { useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import type { Bucket, UsageGroup } from '#server/contract/usage.ts';
import { queryString } from '../../lib/api/api.ts';
import { shortenPseudonym } from '../../lib/api/attribution.ts';
import { OUTCOME_WORDS } from '../../lib/format/outcomes.ts';
import type { FilterSearch } from '../../lib/search/filter.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { useAccountNames, useIsOverseer, useKeyNames } from '../../lib/api/names.ts';
import { USAGE_GROUPS } from '../../lib/search/usage.ts';
import { useSearchChange } from '../../lib/hooks/use-search-change.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { useFilterNames } from '../../ui/attribution/filter.ts';
import { Download } from '../../ui/download.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Segments } from '../../ui/form/segments.tsx';
import { Chips } from '../../ui/form/chips.tsx';
import { MORE_FILTERS, MoreFilters } from '../../ui/form/more-filters.tsx';
import { NamedSelect } from '../../ui/form/named-select.tsx';
import { SubjectFilter } from '../../ui/form/subject-filter.tsx';
import { TimeRange } from '../../ui/form/time-range.tsx';
import { bucketFor, bucketsFor, FALLBACK_RANGE, seriesQuery, type UsageWanted } from './buckets.ts';
import { type Metric, METRICS } from './metrics.ts';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { Ranking, rankedRows } from './ranking.tsx';
import { Totals } from './totals.tsx';
import { UsageChart } from './usage-chart.tsx';
import { isAttributed, useGroupNames } from './group-names.ts';
import { usageQuery } from './usage-query.ts';
import { Freshness } from './freshness.tsx';

const METRIC_CHOICES = Object.entries(METRICS).map(([id, { name }]) => [id as Metric, name] as const);
const BUCKET_NAMES = { minute: 'Minute', hour: 'Hour', day: 'Day' } as const;
const MINUTE_MS = 60_000;

/** Usage over time, grouped by account, key or model. */
export function UsagePage() {
  const search = useSearch({ from: '/inside/usage' });
  const change = useSearchChange({ replace: true });
  const isOverseer = useIsOverseer();
  const [accountNameOf, keyNameOf] = [useAccountNames(), useKeyNames()];
  const nowMs = useNow(MINUTE_MS);
  const { metric = 'requests', group: chosen, bucket, outcome, ...rest } = search;
  // Only requests that have ended are in reports.
  const which: FilterSearch = outcome === undefined || outcome === 'running' ? rest : { ...rest, outcome };
  // All accounts together may have too many keys to group by.
  const usual: UsageGroup = isOverseer && which.account === undefined ? 'account' : 'key';
  const group: UsageGroup = chosen === 'account' && !isOverseer ? 'key' : (chosen ?? usual);
  const wanted: UsageWanted = {
    ...which,
    ...(bucket === undefined ? {} : { bucket }),
    group,
    needsAccount: isOverseer && which.account === undefined && isAttributed(group),
    hasTimes: metric === 'times',
  };
  const query = useQuery(usageQuery(wanted));
  // Models available now, and models used in this range.
  const models = useQuery(modelsQuery).data?.map(({ id }) => id) ?? [];
  const called = group === 'model' ? (query.data?.ranking.rows ?? []).map((row) => row.model ?? '') : [];
  const groups: readonly (readonly [UsageGroup, string])[] = [
    ...(isOverseer ? [['account', 'Account'] as const] : []),
    ['key', 'Key'],
    ['model', 'Model'],
  ];
  const filterNames = useFilterNames(which);
  const chosenMore = (['outcome', ...MORE_FILTERS] as const).filter((name) => which[name] !== undefined);
  const others = USAGE_GROUPS.filter((each) => !['account', 'key', 'model'].includes(each));
  const rows = query.data && !query.isPlaceholderData ? rankedRows(query.data.ranking, metric) : [];
  const attributed = useGroupNames(group, which.account, rows);
  const nameOf = (id: string): string => {
    if (id === '') return 'None';
    if (isAttributed(group)) return attributed.get(id)?.value ?? shortenPseudonym(id);
    return group === 'key' ? keyNameOf(id) : group === 'account' ? accountNameOf(id) : id;
  };

  return (
    <>
      <PageHead title="Usage" about="Requests, tokens and cost over time.">
        <Download
          href={`/api/v1/usage${queryString({ ...seriesQuery(wanted, nowMs), format: 'csv' })}`}
          name="CSV"
          title="Download the chart data as CSV"
        />
      </PageHead>
      <div className="mb-2 flex flex-wrap items-center justify-between gap-2">
        <TimeRange search={search} fallback={FALLBACK_RANGE} onChange={change} />
        <SubjectFilter search={search} models={[...models, ...called]} onChange={change}>
          <MoreFilters search={search} onChange={change} />
        </SubjectFilter>
      </div>
      <div className="mb-4 flex flex-wrap items-center gap-x-6 gap-y-2">
        <Segments
          label="Metric"
          choices={METRIC_CHOICES}
          chosen={metric}
          onChoose={(next: Metric) => change({ metric: next === 'requests' ? undefined : next })}
        />
        <div className="flex flex-wrap items-center gap-2">
          <Segments
            label="Group by"
            isLabelShown
            choices={groups}
            chosen={group}
            onChoose={(next: UsageGroup) => change({ group: next === usual ? undefined : next })}
          />
          <NamedSelect
            label="Other groups"
            all="Other…"
            className="w-32"
            value={others.includes(group) ? group : undefined}
            rows={others.map((id) => ({ id, name: FIELD_NAMES[id] }))}
            onChoose={(next) => change({ group: next })}
          />
        </div>
        <Segments
          label="Interval"
          isLabelShown
          choices={bucketsFor(wanted, nowMs).map((each) => [each, BUCKET_NAMES[each]] as const)}
          chosen={bucketFor(wanted, nowMs)}
          onChoose={(next: Bucket) => change({ bucket: next })}
        />
      </div>
      <div className="mb-4 empty:hidden">
        <Chips
          chips={chosenMore.map((name) => ({
            name: FIELD_NAMES[name].toLowerCase(),
            value:
              name === 'outcome'
                ? OUTCOME_WORDS[which[name] ?? 'running']
                : name === 'end_user' || name === 'session' || name === 'tag'
                  ? filterNames(name)
                  : String(which[name]),
            onRemove: () => change({ [name]: undefined }),
          }))}
          onClear={() => change(Object.fromEntries(chosenMore.map((name) => [name, undefined])))}
        />
      </div>
      <Loaded query={query} title="Couldn’t load usage" height="h-[40rem]">
        {(shown) => (
          <div
            aria-busy={query.isPlaceholderData}
            className={`flex flex-col gap-4 *:min-w-0 ${query.isPlaceholderData ? 'opacity-90' : ''}`}
          >
            <Totals totals={shown.totals} />
            <UsageChart shown={shown} metric={metric} group={group} nameOf={nameOf} />
            <Ranking
              report={shown.ranking}
              metric={metric}
              group={group}
              search={which}
              nameOf={nameOf}
              accountNameOf={accountNameOf}
              attributed={attributed}
            />
            <Freshness
              report={shown.series}
              isLoading={query.isFetching}
              onRefresh={() => void query.refetch()}
            />
          </div>
        )}
      </Loaded>
    </>
  );
}
