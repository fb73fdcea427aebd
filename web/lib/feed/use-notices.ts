import { type QueryKey, useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent } from 'react';
import type { Frame } from '#server/contract/frames.ts';
import { feed } from './feed.ts';
import { useFeed, useFrames } from './use-feed.ts';

const EVERYTHING = {};

/** Whether frames report an event of certain types, or that events were missed which may be of them. */
export function mayHaveChanged(frames: readonly Frame[], isConcerned: (kind: string) => boolean): boolean {
  return frames.some(
    (frame) =>
      frame.type === 'gap' ||
      (frame.type === 'hello' && feed.startsAtHead) ||
      (frame.type === 'notice' && isConcerned(frame.kind)),
  );
}

/**
 * Refetches queries when the live feed reports a change of the given kinds, and when the page is opened.
 * @param kinds prefixes of event types, such as `plan.`
 */
export function useNotices(kinds: readonly string[], queryKeys: readonly QueryKey[]): void {
  const queries = useQueryClient();
  const renew = useEffectEvent(() => {
    // A running request is recent enough.
    for (const queryKey of queryKeys) void queries.invalidateQueries({ queryKey }, { cancelRefetch: false });
  });
  useEffect(() => renew(), []);
  useFeed(EVERYTHING, null);
  useFrames((frames) => {
    const isConcerned = (kind: string): boolean => kinds.some((prefix) => kind.startsWith(prefix));
    if (mayHaveChanged(frames, isConcerned))
      for (const queryKey of queryKeys) void queries.invalidateQueries({ queryKey });
  });
}
