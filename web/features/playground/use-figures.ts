import { useRef, useState } from 'react';
import type { FrameOf } from '#server/contract/frames.ts';
import { useFeed, useFrames } from '../../lib/use-feed.ts';

/** What a call came to, as the log has it. */
export type Figures = FrameOf<'settled'>;

/** Calls of the account that ended last: one may have ended before this page knows its id. */
const KEPT_MAX = 1_000;

/**
 * The endings of these calls, as the feed tells of them: of all of the account's keys, since another may be
 * chosen while a call runs.
 */
export function useFigures(account: string, requests: readonly string[]): ReadonlyMap<string, Figures> {
  const [figures, setFigures] = useState<ReadonlyMap<string, Figures>>(new Map());
  const recent = useRef<Figures[]>([]);
  useFeed({ account }, null);
  useFrames((frames) => {
    const settled = frames.filter((frame) => frame.type === 'settled');
    if (settled.length > 0) recent.current = [...recent.current, ...settled].slice(-KEPT_MAX);
    const found = recent.current.filter(({ request }) => requests.includes(request) && !figures.has(request));
    if (found.length > 0)
      setFigures(new Map([...figures, ...found.map((each) => [each.request, each] as const)]));
  });
  return figures;
}
