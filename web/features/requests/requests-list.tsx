import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { BEHIND_SHOWN_MIN } from '../../lib/api/queries.ts';
import { type FilterSearch, requestFilterOf } from '../../lib/search/filter.ts';
import { useMe } from '../../lib/api/session.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { useFeed, useFrames } from '../../lib/feed/use-feed.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { LiveMark } from '../../ui/live-mark.tsx';
import { Empty, Waiting } from '../../ui/layout/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { When } from '../../ui/when.tsx';
import { LiveList } from './live-list.ts';
import { requestsQuery } from './queries.ts';
import { HEIGHT, RequestTable, type TableHandle } from './request-table.tsx';
import { usePause } from './use-pause.ts';

const LAG_PAUSE_MS = 500;

type RequestsListProps = {
  search: FilterSearch;
  open: string | undefined;
  onOpen: (request: string) => void;
  onClear: () => void;
};

/** The requests of one filter: fetched pages continued by the live feed. Remounted for another filter. */
export function RequestsList({ search, open, onOpen, onClear }: RequestsListProps) {
  const filter = requestFilterOf(search);
  const [list] = useState(() => new LiveList(filter, search.to === undefined));
  const { rows, newCount, isCut } = useSyncExternalStore(list.subscribe, () => list.shown);
  const pause = usePause(list);
  const table = useRef<TableHandle>(null);
  const [before, setBefore] = useState<string | null>(null);
  const [after, setAfter] = useState<number>();
  const [needed, setNeeded] = useState(0);
  const queries = useQueryClient();
  const options = requestsQuery(search, before);
  const { data, error, isFetching, isFetchingNextPage, hasNextPage, fetchNextPage, refetch } =
    useInfiniteQuery({ ...options, refetchOnWindowFocus: false, refetchOnReconnect: false });
  const newest = data?.pages[0];
  const oldest = data?.pages.at(-1);
  // The feed continues after the first fetched page.
  if (after === undefined && newest !== undefined) setAfter(newest.position);
  const isLagging = newest !== undefined && newest.position < needed;

  useEffect(() => {
    if (!data) return;
    list.setFetched({
      rows: data.pages.flatMap((page) => page.data),
      reachesTo: data.pages.at(-1)?.next == null ? null : (data.pages.at(-1)?.scanned_from ?? null),
    });
    if (before !== null) list.closeGap();
  }, [list, data, before]);
  // The projections have not reached the gap yet.
  useEffect(() => {
    if (!isLagging || isFetching) return undefined;
    const timer = setTimeout(() => void refetch(), LAG_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [isLagging, isFetching, refetch]);
  useEffect(() => pause.set('open', open !== undefined));

  useFeed(filter, after);
  useFrames((frames) => {
    list.apply(frames);
    const gap = frames.find((frame) => frame.type === 'gap');
    if (!gap) return;
    setNeeded(gap.position);
    setBefore(null);
    void queries.resetQueries({ queryKey: requestsQuery(search, null).queryKey });
  });

  const resume = (): void => {
    table.current?.leave();
    pause.resume();
  };
  useShortcuts({
    j: () => table.current?.move(1),
    k: () => table.current?.move(-1),
    ' ': () => (pause.isPaused ? resume() : pause.set('button', true)),
  });
  const onNearEnd = (): void => {
    if (isFetching || error) return;
    if (isCut) {
      const last = rows.at(-1);
      // Includes the last row's millisecond; rows already listed are not repeated.
      if (last && pause.isPaused) setBefore(new Date(Date.parse(last.accepted_at) + 1).toISOString());
    } else if (hasNextPage) void fetchNextPage();
  };

  const isLoaded = newest !== undefined || rows.length > 0;
  return (
    <div>
      <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-1.5">
        {search.to === undefined ? (
          <LiveMark isPaused={pause.isPaused} />
        ) : (
          <span className="text-muted">
            Until <When time={search.to} />
          </span>
        )}
        {search.to === undefined && (
          <Button
            icon={pause.isPaused ? 'play' : 'pause'}
            className="min-w-32"
            title="Space"
            onClick={() => (pause.isPaused ? resume() : pause.set('button', true))}
          >
            {pause.isPaused ? `Resume (${showCount(newCount)} new)` : 'Pause'}
          </Button>
        )}
      </div>
      {error && (
        <div className="border-b border-line p-4">
          <Problem error={error} title="Couldn’t load requests" onRetry={() => void refetch()} />
        </div>
      )}
      {!isLoaded && !error && <Waiting height={HEIGHT} label="Loading requests" />}
      {isLoaded && (
        <RequestTable
          ref={table}
          rows={rows}
          open={open}
          pause={pause}
          onOpen={onOpen}
          onNearEnd={onNearEnd}
          empty={isFetching ? <Waiting height={HEIGHT} /> : <NoRequests search={search} onClear={onClear} />}
        />
      )}
      <p
        className={[
          'flex min-h-9 flex-wrap justify-between gap-x-4 border-t border-line px-4 py-2',
          'text-xs text-muted',
        ].join(' ')}
      >
        <span>
          {isLoaded && showCounted(rows.length, 'request')} {isFetchingNextPage && ', loading more…'}{' '}
          {!hasNextPage && !isCut && oldest?.next != null && '. Select a time range to see older requests.'}
        </span>
        {search.to !== undefined && newest && newest.behind >= BEHIND_SHOWN_MIN && (
          <span>{showCount(newest.behind)} events not included yet</span>
        )}
      </p>
    </div>
  );
}

function NoRequests({ search, onClear }: { search: FilterSearch; onClear: () => void }) {
  const { member } = useMe();
  if (Object.keys(requestFilterOf(search)).length > 0) {
    return (
      <Empty icon="filter" title="No matching requests">
        <p>New matching requests appear here automatically.</p>
        <Button className="mt-3" onClick={onClear}>
          Clear filters
        </Button>
      </Empty>
    );
  }
  return (
    <Empty icon="list" title="No requests in this time range">
      <p>Requests appear here as they happen.</p>
      {member.role !== 'auditor' && (
        <Link to="/first-call" className={buttonClass('primary', 'mt-3')}>
          Send a request
        </Link>
      )}
    </Empty>
  );
}
