import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { LiveStore, type LiveView, positionOf } from '../../lib/feed/live-store.ts';
import { PacedView } from '../../lib/feed/paced-view.ts';
import { useFeed, useFrames } from '../../lib/feed/use-feed.ts';
import { type Overview, overviewQuery } from './overview-query.ts';

/** The delay after which the projections include an ended bucket, and the jitter between pages. */
const SETTLED_AFTER_MS = 1_500;
const SPREAD_MS = 3_000;
/** The delay before refetching after a gap in the feed. */
const MISSING_AGAIN_MS = 1_500;

/** Projected figures, continued by the live feed. Only one page at a time may open the feed this way. */
export function useLive(base: Overview, isPaused: boolean): LiveView {
  const queries = useQueryClient();
  const [after] = useState(() => positionOf(base));
  const [paced] = useState(() => new PacedView(new LiveStore(base)));
  const view = useSyncExternalStore(paced.subscribe, paced.get);
  useFeed(base.filter, after);
  useFrames((_frames, message) => paced.apply(message));
  useEffect(() => paced.rebase(base), [paced, base]);
  useEffect(() => paced.setPaused(isPaused), [paced, isPaused]);

  const { filter, range, bucketMs } = base;
  const { isMissing } = view;
  useEffect(() => {
    // Missed events and the end of the range are only known to the projections.
    let timer: ReturnType<typeof setTimeout>;
    const wait = (): void => {
      const bucketEndsMs = bucketMs - (Date.now() % bucketMs) + SETTLED_AFTER_MS + Math.random() * SPREAD_MS;
      timer = setTimeout(again, isMissing ? MISSING_AGAIN_MS : bucketEndsMs);
    };
    const again = (): void => {
      if (!isPaused && !document.hidden) void queries.invalidateQueries(overviewQuery(filter, range));
      wait();
    };
    wait();
    return () => clearTimeout(timer);
  }, [queries, filter, range, bucketMs, isMissing, isPaused]);
  return view;
}
