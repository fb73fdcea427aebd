import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { LiveStore, type LiveView, positionOf } from '../../lib/live-store.ts';
import { PacedView } from '../../lib/paced-view.ts';
import { useFeed, useFrames } from '../../lib/use-feed.ts';
import { type Overview, overviewQuery } from './overview-query.ts';

/**
 * Figures of the tables reach so far behind the clock that a bucket is in them, and not all pages ask at
 * once.
 */
const SETTLED_AFTER_MS = 1_500;
const SPREAD_MS = 3_000;
/** The tables are that soon asked again for what the feed has left out. */
const MISSING_AGAIN_MS = 1_500;

/** Figures of the tables as the live feed brings them on. The feed may be opened by one such page alone. */
export function useLive(base: Overview, isHeld: boolean): LiveView {
  const queries = useQueryClient();
  const [after] = useState(() => positionOf(base));
  const [paced] = useState(() => new PacedView(new LiveStore(base)));
  const view = useSyncExternalStore(paced.subscribe, paced.get);
  useFeed(base.filter, after);
  useFrames((_frames, message) => paced.take(message));
  useEffect(() => paced.rebase(base), [paced, base]);
  useEffect(() => paced.hold(isHeld), [paced, isHeld]);

  const { filter, range, bucketMs } = base;
  const { isMissing } = view;
  useEffect(() => {
    // What was left out, or what has just fallen out of the range, only the tables can tell.
    let timer: ReturnType<typeof setTimeout>;
    const wait = (): void => {
      const bucketEndsMs = bucketMs - (Date.now() % bucketMs) + SETTLED_AFTER_MS + Math.random() * SPREAD_MS;
      timer = setTimeout(again, isMissing ? MISSING_AGAIN_MS : bucketEndsMs);
    };
    const again = (): void => {
      if (!isHeld && !document.hidden) void queries.invalidateQueries(overviewQuery(filter, range));
      wait();
    };
    wait();
    return () => clearTimeout(timer);
  }, [queries, filter, range, bucketMs, isMissing, isHeld]);
  return view;
}
