import { type QueryKey, useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent } from 'react';
import { useFeed, useFrames } from './use-feed.ts';

const EVERYTHING = {};

/**
 * Keeps lists up to date while a page shows them: somebody's change, wherever it was made, comes as a
 * notice of the live feed and has them fetched anew. So has coming back to the page, since nobody
 * listened for it meanwhile.
 * @param kinds the beginnings of the events' types, such as `plan.`
 */
export function useNotices(kinds: readonly string[], queryKeys: readonly QueryKey[]): void {
  const queries = useQueryClient();
  const renew = useEffectEvent(() => {
    // What is on its way already is new enough.
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
