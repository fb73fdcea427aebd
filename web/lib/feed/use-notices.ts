import { type QueryKey, useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent } from 'react';
import { useFeed, useFrames } from './use-feed.ts';

const EVERYTHING = {};

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
    const concerns = frames.some(
      (frame) =>
        frame.type === 'gap' ||
        (frame.type === 'notice' && kinds.some((kind) => frame.kind.startsWith(kind))),
    );
    if (concerns) for (const queryKey of queryKeys) void queries.invalidateQueries({ queryKey });
  });
}
