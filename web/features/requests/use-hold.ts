import { useEffect, useState } from 'react';
import type { LiveList } from './live-list.ts';

/**
 * Why a table holds still: somebody points at it, is in it, has scrolled down, looks at one of its rows, or
 * wants it to.
 */
type HoldReason = 'pointer' | 'focus' | 'scroll' | 'open' | 'wish';

export type Hold = {
  isHeld: boolean;
  set: (reason: HoldReason, isSo: boolean) => void;
  /** Whatever the reasons. */ letGo: () => void;
};

const NONE: ReadonlySet<HoldReason> = new Set();

/** Holds a list still for as long as there is a reason. */
export function useHold(list: LiveList): Hold {
  const [reasons, setReasons] = useState(NONE);
  const isHeld = reasons.size > 0;
  useEffect(() => list.setHeld(isHeld), [list, isHeld]);
  return {
    isHeld,
    set: (reason, isSo) =>
      setReasons((before) => {
        if (before.has(reason) === isSo) return before;
        const after = new Set(before);
        if (isSo) after.add(reason);
        else after.delete(reason);
        return after;
      }),
    letGo: () => setReasons(NONE),
  };
}
