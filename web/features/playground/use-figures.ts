import { useRef, useState } from 'react';
import type { FrameOf } from '#server/contract/frames.ts';
import { useFeed, useFrames } from '../../lib/feed/use-feed.ts';

/** The final figures of a request, as recorded. */
export type Figures = FrameOf<'settled'>;

/** Recently ended requests of the account: a request can end before this page knows its id. */
const KEPT_MAX = 1_000;

/**
 * The final figures of these requests from the live feed, for all keys of the account, because the selected
 * key may change while a request runs.
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
