/** The days of a time zone. Pure. */

/** An interval of time, from the first moment until before the second, in ms since 1970. */
export type Interval = { fromMs: number; toMs: number };

const SLOT_MS = 15 * 60_000;
const SLOTS_MAX = 100_000;
/** Ten years: the rest of a longer interval is one. */
const DAYS_MAX = 4_000;

/** Returns the day of a moment in a zone, `2026-11-23`. Offsets are multiples of a quarter of an hour. */
export function daysOf(timeZone: string): (ms: number) => string {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  });
  const slots = new Map<number, string>();
  return (ms) => {
    const slot = Math.floor(ms / SLOT_MS);
    let day = slots.get(slot);
    if (day === undefined) {
      if (slots.size >= SLOTS_MAX) slots.clear();
      slots.set(slot, (day = format.format(slot * SLOT_MS)));
    }
    return day;
  };
}

/** Splits an interval at the beginnings of days, of which some have 23 or 25 hours. */
export function splitDays({ fromMs, toMs }: Interval, timeZone: string): Interval[] {
  const days: Interval[] = [];
  for (let startMs = fromMs; startMs < toMs;) {
    const day = Temporal.Instant.fromEpochMilliseconds(startMs).toZonedDateTimeISO(timeZone).toPlainDate();
    const nextMs = day.add({ days: 1 }).toZonedDateTime(timeZone).epochMilliseconds;
    const endMs = days.length < DAYS_MAX ? Math.min(nextMs, toMs) : toMs;
    days.push({ fromMs: startMs, toMs: endMs });
    startMs = endMs;
  }
  return days;
}
