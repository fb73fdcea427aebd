import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { useRef } from 'react';
import { queryString } from '../../lib/api.ts';
import type { EventSearch } from '../../lib/event-search.ts';
import { showCount, showCounted } from '../../lib/show.ts';
import { useAddressChange } from '../../lib/use-address-change.ts';
import { useFeed } from '../../lib/use-feed.ts';
import { useShortcuts } from '../../lib/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Download } from '../../ui/download.tsx';
import { PageHead } from '../../ui/page-head.tsx';
import { Card, Empty, Waiting } from '../../ui/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { EventFilter } from './event-filter.tsx';
import { EventLine } from './event-line.tsx';
import { NewEvents } from './new-events.tsx';
import { eventsQuery } from './queries.ts';
import { Sections } from './sections.tsx';
import { useNames } from './use-names.ts';

const EVERYTHING = {};

/** The log as it is: every event that concerns whoever looks. */
export function AuditPage() {
  const search = useSearch({ from: '/inside/audit' });
  const change = useAddressChange({ replace: false });
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
  // A request is read from its beginning, as soon as all of it is there.
  const isStory = search.request !== undefined && !hasNextPage;
  const events = isStory ? found.toReversed() : found;

  return (
    <>
      <PageHead
        title="Audit log"
        about="All that happened, in the order in which it was written down. Nothing in it is ever changed."
      >
        <NewEvents
          key={`${newest?.head} ${JSON.stringify(search)}`}
          search={search}
          onShow={() => void queries.resetQueries({ queryKey: eventsQuery(search).queryKey })}
        />
        <Download
          href={`/api/events.ndjson${queryString(search)}`}
          name="NDJSON"
          title="The events of this filter, one a line, the oldest first"
        />
      </PageHead>
      <Sections />
      <EventFilter search={search} names={names} onChange={change} input={placeField} />
      {error && (
        <div className="mb-3">
          <Problem
            error={error}
            title="The events could not be loaded"
            onRetry={() => void (data ? query.fetchNextPage() : query.refetch())}
          />
        </div>
      )}
      {!data && !error && <Waiting height="h-[32rem]" label="Loading events" />}
      {data && (
        <Card flush className="overflow-hidden">
          {events.length > 0 && (
            <ol ref={list} aria-label={isStory ? 'Events, the oldest first' : 'Events, the newest first'}>
              {events.map((event) => (
                <EventLine
                  key={event.position}
                  event={event}
                  names={names}
                  isMeant={event.position === search.at}
                />
              ))}
            </ol>
          )}
          {events.length === 0 && !hasNextPage && (
            <Empty icon="scroll" title="No event fits">
              <p>Take a part of the filter away, or choose another time.</p>
            </Empty>
          )}
          {hasNextPage && last && (
            <div className="flex flex-wrap items-center justify-between gap-2 border-t border-line px-4 py-2.5 first:border-t-0">
              <p className="text-muted" role="status">
                {events.length === 0 ? 'None was found so far.' : `${showCount(events.length)} events.`}{' '}
                Looked back to position {showCount(last.scanned_to)}.
              </p>
              <Button busy={isFetching} onClick={() => void query.fetchNextPage()}>
                {last.data.length === 0 ? 'Look further' : 'Older events'}
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
  if (request !== undefined) return `${all} of this request, the oldest first.`;
  return from !== undefined || Object.keys(rest).length > 0
    ? `${all}; there are no older ones that fit.`
    : `${all}; the first stands at the beginning of the log.`;
}
