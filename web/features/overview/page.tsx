import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { requestFilterOf } from '../../lib/search/filter.ts';
import { useSearchChange } from '../../lib/hooks/use-search-change.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { LiveMark } from '../../ui/live-mark.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { SubjectFilter } from '../../ui/form/subject-filter.tsx';
import { TimeRange } from '../../ui/form/time-range.tsx';
import { LiveOverview } from './live-overview.tsx';
import { overviewQuery } from './overview-query.ts';

/** Live figures. */
export function OverviewPage() {
  const search = useSearch({ from: '/inside/' });
  const change = useSearchChange({ replace: true });
  const [isPaused, setPaused] = useState(false);
  const range = search.range ?? '15m';
  const { outcome: _, status: __, ...filter } = requestFilterOf(search);
  const query = useQuery({ ...overviewQuery(filter, range), placeholderData: keepPreviousData });
  const toggle = (): void => setPaused(!isPaused);
  useShortcuts({ ' ': toggle });

  return (
    <>
      <PageHead title="Overview" about="Requests, tokens and cost in real time.">
        <LiveMark isPaused={isPaused} />
        <Button icon={isPaused ? 'play' : 'pause'} onClick={toggle} aria-keyshortcuts="Space" title="Space">
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
      </PageHead>
      <div className="mb-4 flex flex-wrap items-center justify-between gap-2">
        <TimeRange
          search={{ range }}
          fallback="15m"
          onChange={({ range: chosen }) => change({ range: chosen })}
          hasSpan={false}
        />
        <SubjectFilter
          search={search}
          models={query.data?.groups.rows?.map((row) => row.model ?? '')}
          onChange={change}
        />
      </div>
      <Loaded query={query} title="Couldn’t load figures" height="h-[40rem]">
        {(base) => (
          <div aria-busy={query.isPlaceholderData} className={query.isPlaceholderData ? 'opacity-90' : ''}>
            <LiveOverview key={JSON.stringify([base.filter, base.range])} base={base} isPaused={isPaused} />
          </div>
        )}
      </Loaded>
    </>
  );
}
