import { type Meter, METERS } from '#db/limits/meters.ts';
import type { WindowKind } from '#db/limits/limits.ts';

const WINDOWS: Record<Exclude<WindowKind, 'none' | 'minute'>, string> = {
  hour: 'Hourly',
  day: 'Daily',
  week: 'Weekly',
  month: 'Monthly',
  lifetime: 'Lifetime',
};

/** The name of a limit: "Daily tokens", "Requests per minute", "Concurrent requests". */
export function limitTitle({ meter, window }: { meter: Meter; window: WindowKind }): string {
  const { name, charged } = METERS[meter];
  if (charged !== 'while_running' && window !== 'none' && window !== 'minute')
    return `${WINDOWS[window]} ${name}`;
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}${window === 'minute' ? ' per minute' : ''}`;
}
