import { QUOTED_CHARACTERS_MAX } from '#db/reconcile/bill/bounds.ts';

/** A bill that can't be read: the place in the bill, and the fault there. */
export class BillFormatError extends Error {
  override name = 'BillFormatError';
  readonly place: string;

  constructor(place: string, reason: string) {
    super(`${place}: ${reason}`);
    this.place = place;
  }
}

/** A value of a bill in an error: shortened, and without control characters. */
export function quoted(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined');
  return JSON.stringify(
    text.length > QUOTED_CHARACTERS_MAX ? `${text.slice(0, QUOTED_CHARACTERS_MAX)}…` : text,
  );
}
