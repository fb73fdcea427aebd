import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { useRef } from 'react';
import { queryString } from '../../lib/api/api.ts';
import type { EventSearch } from '../../lib/search/events.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { useSearchChange } from '../../lib/hooks/use-search-change.ts';
import { useFeed } from '../../lib/feed/use-feed.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Download } from '../../ui/download.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Empty, Waiting } from '../../ui/layout/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { EventFilter } from './event-filter.tsx';
import { EventLine } from './event-line.tsx';
import { NewEvents } from './new-events.tsx';
import { eventsQuery } from './queries.ts';
import { Sections } from './sections.tsx';
import { useNames } from './use-names.ts';

const EVERYTHING = {};

/** Every event that the member may see. */
export function AuditPage() {
  const search = useSearch({ from: '/inside/audit' });
  const change = useSearchChange({ replace: false });
  const names = useNames();
  const queries = useQueryClient();
  const placeField = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLOListElement>(null);
  const query = useInfiniteQuery({
    ...eventsQuery(search),
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const { data, error, isFetching, hasNextPage } = query;
  useFeed(EVERYTHING, null);
  const step = (by: number): void => {
    const lines = [...(list.current?.querySelectorAll('summary') ?? [])];
    const at = lines.findIndex((line) => line === document.activeElement);
    lines[Math.max(0, Math.min(lines.length - 1, at + by))]?.focus();
  };
  useShortcuts({ '/': () => placeField.current?.focus(), j: () => step(1), k: () => step(-1) });

  const newest = data?.pages[0];
  const last = data?.pages.at(-1);
  const found = data?.pages.flatMap((page) => page.data) ?? [];
  // The events of one request are shown oldest first once all are loaded.
  const isOneRequest = search.request !== undefined && !hasNextPage;
  const events = isOneRequest ? found.toReversed() : found;

  return (
    <>
      <PageHead
        title="Audit log"
        about="Every event in the order it was recorded. Events are never changed or deleted."
      >
        <NewEvents
          key={`${newest?.head} ${JSON.stringify(search)}`}
          search={search}
          onShow={() => void queries.resetQueries({ queryKey: eventsQuery(search).queryKey })}
        />
        <Download
          href={`/api/v1/events.ndjson${queryString(search)}`}
          name="NDJSON"
          title="Download matching events, one per line, oldest first"
        />
      </PageHead>
      <Sections />
      <EventFilter search={search} names={names} onChange={change} input={placeField} />
      {error && (
        <div className="mb-3">
          <Problem
            error={error}
            title="Couldn’t load events"
            onRetry={() => void (data ? query.fetchNextPage() : query.refetch())}
          />
        </div>
      )}
      {!data && !error && <Waiting height="h-[32rem]" label="Loading events" />}
      {data && (
        <Card flush className="overflow-hidden">
          {events.length > 0 && (
            <ol ref={list} aria-label={isOneRequest ? 'Events, oldest first' : 'Events, newest first'}>
              {events.map((event) => (
                <EventLine
                  key={event.position}
                  event={event}
                  names={names}
                  isTarget={event.position === search.at}
                />
              ))}
            </ol>
          )}
          {events.length === 0 && !hasNextPage && (
            <Empty icon="scroll" title="No matching events">
              <p>Change the filters or the time range.</p>
            </Empty>
          )}
          {hasNextPage && last && (
            <div
              className={[
                'flex flex-wrap items-center justify-between gap-2 border-t border-line px-4 py-2.5',
                'first:border-t-0',
              ].join(' ')}
            >
              <p className="text-muted" role="status">
                {events.length === 0 ? 'No matches so far.' : `${showCounted(events.length, 'event')}.`}{' '}
                Searched back to position {showCount(last.scanned_to)}.
              </p>
              <Button busy={isFetching} onClick={() => void query.fetchNextPage()}>
                {last.data.length === 0 ? 'Keep searching' : 'Load older'}
              </Button>
            </div>
          )}
          {!hasNextPage && events.length > 0 && (
            <p className="border-t border-line px-4 py-2 text-xs text-muted">
              {endOf(search, events.length)}
            </p>
          )}
        </Card>
      )}
    </>
  );
}

function endOf({ request, from, ...rest }: EventSearch, count: number): string {
  const all = showCounted(count, 'event');
  if (request !== undefined) return `${all} of this request, oldest first.`;
  return from !== undefined || Object.keys(rest).length > 0
    ? `${all}. No older matches.`
    : `${all}. This is the beginning of the log.`;
}
