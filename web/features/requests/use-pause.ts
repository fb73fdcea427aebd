import { useEffect, useState } from 'react';
import type { LiveList } from './live-list.ts';

/** Why a list is paused: hover, focus, scrolled down, an open row, or the Pause button. */
type PauseReason = 'pointer' | 'focus' | 'scroll' | 'open' | 'button';

export type Pause = {
  isPaused: boolean;
  set: (reason: PauseReason, isOn: boolean) => void;
  /** Clears all reasons. */ resume: () => void;
};

const NONE: ReadonlySet<PauseReason> = new Set();

/** Pauses a list while there is a reason. */
export function usePause(list: LiveList): Pause {
  const [reasons, setReasons] = useState(NONE);
  const isPaused = reasons.size > 0;
  useEffect(() => list.setPaused(isPaused), [list, isPaused]);
  return {
    isPaused,
    set: (reason, isOn) =>
      setReasons((before) => {
        if (before.has(reason) === isOn) return before;
        const after = new Set(before);
        if (isOn) after.add(reason);
        else after.delete(reason);
        return after;
      }),
    resume: () => setReasons(NONE),
  };
}
