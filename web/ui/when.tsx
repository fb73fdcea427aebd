import { useZone } from '../lib/preferences.ts';
import { showAgo, showTime } from '../lib/show.ts';
import { useNow } from '../lib/use-now.ts';

/** A moment, exact, in the zone that was chosen. */
export function When({ time, form = 'full' }: { time: string; form?: 'time' | 'date' | 'full' }) {
  const zone = useZone();
  return (
    <time dateTime={time} title={time} className="whitespace-nowrap">
      {showTime(time, zone, form)}
    </time>
  );
}

const STEP_MS = 10_000;

/** How long ago, or how soon; the exact time on hovering. */
export function Ago({ time }: { time: string }) {
  const zone = useZone();
  const now = useNow(STEP_MS);
  const at = Date.parse(time);
  // Now is late by up to a step: what has just been is not yet to come.
  const isJustNow = at > now && at < now + STEP_MS;
  return (
    <time dateTime={time} title={showTime(time, zone)} className="whitespace-nowrap">
      {showAgo(time, isJustNow ? at : now)}
    </time>
  );
}
