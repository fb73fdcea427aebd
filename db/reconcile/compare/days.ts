/** The days of a time zone. Pure. */

const SLOT_MS = 15 * 60_000;
const SLOTS_MAX = 100_000;

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
