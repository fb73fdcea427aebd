import { useEffect, useEffectEvent, useSyncExternalStore } from 'react';
import type { RequestFilter } from '#server/contract/requests.ts';
import { feed, type FeedListener, type FeedState, type FeedStatus } from './feed.ts';

/** How the live feed is doing. */
export const useFeedState = (): FeedState => useSyncExternalStore(feed.onState, () => feed.state);

/** The same without how far it is behind, which changes all the time. */
export const useFeedStatus = (): FeedStatus => useSyncExternalStore(feed.onState, () => feed.state.status);

/**
 * Opens the feed for what a page shows, for as long as it shows it.
 * @param after the position of the figures that are shown; undefined: they are not there yet, so wait.
 */
export function useFeed(filter: RequestFilter, after: number | null | undefined): void {
  const name = JSON.stringify(filter);
  useEffect(() => {
    if (after !== undefined) feed.open(JSON.parse(name) as RequestFilter, after);
  }, [name, after]);
}

/** Hears every message of the feed while the component is there. */
export function useFrames(listener: FeedListener): void {
  const hear = useEffectEvent(listener);
  useEffect(() => feed.listen((frames, message) => hear(frames, message)), []);
}
