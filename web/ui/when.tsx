import { useZone } from '../lib/hooks/preferences.ts';
import { showAgo, showTime } from '../lib/format/show.ts';
import { useNow } from '../lib/hooks/use-now.ts';

/** An exact time in the selected zone. */
export function When({ time, form = 'full' }: { time: string; form?: 'time' | 'date' | 'full' }) {
  const zone = useZone();
  return (
    <time dateTime={time} title={time} className="whitespace-nowrap">
      {showTime(time, zone, form)}
    </time>
  );
}

const STEP_MS = 10_000;

/** A relative time with the exact time as tooltip. */
export function Ago({ time }: { time: string }) {
  const zone = useZone();
  const now = useNow(STEP_MS);
  const at = Date.parse(time);
  // The clock may lag by one step, so that a recent time is not shown as future.
  const isJustNow = at > now && at < now + STEP_MS;
  return (
    <time dateTime={time} title={showTime(time, zone)} className="whitespace-nowrap">
      {showAgo(time, isJustNow ? at : now)}
    </time>
  );
}
