import { BillFormatError, quoted } from '#db/reconcile/bill/format-error.ts';

/** Days and moments as bills spell them. Pure. */

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const MOMENT = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(Z|[+-]\d{2}:?\d{2}| ?UTC)?$/i;

/** The first moment of a day in a time zone, which may be 23 or 25 hours long. */
function startOf(day: Temporal.PlainDate, timeZone: string): Date {
  return new Date(day.toZonedDateTime(timeZone).epochMilliseconds);
}

/**
 * The interval of a day such as `2026-10-01`.
 * @throws {BillFormatError} when there is no such day.
 */
export function dayOf(text: string, timeZone: string, place: string): { from: Date; to: Date } {
  const day = DATE.test(text) ? plainDate(text) : null;
  if (day === null) throw new BillFormatError(place, `${quoted(text)} is not a date such as 2026-10-01.`);
  return { from: startOf(day, timeZone), to: startOf(day.add({ days: 1 }), timeZone) };
}

/**
 * A moment such as `2026-10-01T12:30:00Z`, or the start of a day. Without an offset it is in the time zone.
 * @throws {BillFormatError} when it is neither.
 */
export function momentOf(text: string, timeZone: string, place: string): Date {
  if (DATE.test(text)) return dayOf(text, timeZone, place).from;
  const [, date = '', time = '', zone] = MOMENT.exec(text) ?? [];
  try {
    if (date === '') throw new RangeError();
    if (zone === undefined)
      return new Date(
        Temporal.PlainDateTime.from(`${date}T${time}`).toZonedDateTime(timeZone).epochMilliseconds,
      );
    const offset = /utc/i.test(zone) ? 'Z' : zone;
    return new Date(Temporal.Instant.from(`${date}T${time}${offset}`).epochMilliseconds);
  } catch {
    throw new BillFormatError(place, `${quoted(text)} is not a time such as 2026-10-01T12:30:00Z.`);
  }
}

/** Whether the name of a time zone, such as `America/Los_Angeles`, is known. */
export function isTimeZone(name: string): boolean {
  try {
    Temporal.PlainDate.from('2026-01-01').toZonedDateTime(name);
    return true;
  } catch {
    return false;
  }
}

function plainDate(text: string): Temporal.PlainDate | null {
  try {
    return Temporal.PlainDate.from(text);
  } catch {
    return null;
  }
}
