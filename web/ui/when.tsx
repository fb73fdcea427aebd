import { useZone } from '../lib/preferences.ts';
import { showAgo, showTime } from '../lib/show.ts';
import { useNow } from '../lib/use-now.ts';

/** A moment, exact, in the zone that was chosen. */
export function When({ time, form = 'full' }: { time: string; form?: 'time' | 'minute' | 'date' | 'full' }) {
  const zone = useZone();
  return (
    <time dateTime={time} title={time} className="whitespace-nowrap">
      {showTime(time, zone, form)}
    </time>
  );
}

/** How long ago, or how soon; the exact time on hovering. */
export function Ago({ time }: { time: string }) {
  const zone = useZone();
  return (
    <time dateTime={time} title={showTime(time, zone)} className="whitespace-nowrap">
      {showAgo(time, useNow(10_000))}
    </time>
  );
}
