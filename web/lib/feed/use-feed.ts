import { useEffect, useEffectEvent, useSyncExternalStore } from 'react';
import type { RequestFilter } from '#server/contract/requests.ts';
import { feed, type FeedListener, type FeedState, type FeedStatus } from './feed.ts';

/** The state of the live feed. */
export const useFeedState = (): FeedState => useSyncExternalStore(feed.onState, () => feed.state);

/** The status without the delay, which changes often. */
export const useFeedStatus = (): FeedStatus => useSyncExternalStore(feed.onState, () => feed.state.status);

/**
 * Opens the feed for a page.
 * @param after the position of the page's figures; undefined until they are loaded.
 */
export function useFeed(filter: RequestFilter, after: number | null | undefined): void {
  const name = JSON.stringify(filter);
  useEffect(() => {
    if (after !== undefined) feed.open(JSON.parse(name) as RequestFilter, after);
  }, [name, after]);
}

/** Subscribes to the feed while the component is mounted. */
export function useFrames(listener: FeedListener): void {
  const onMessage = useEffectEvent(listener);
  useEffect(() => feed.listen((frames, message) => onMessage(frames, message)), []);
}
