/**
 * The position of a page in a list: after the last scanned request, within the time range of the first page.
 * Pure.
 */
export type Cursor = {
  /** The beginning of the time that is listed, in whole milliseconds since 1970. */
  fromMs: number;
  /** When the last request was accepted, in microseconds since 1970: as exact as Postgres orders them. */
  atUs: number;
  /** Its position, which orders requests of the same microsecond. */
  position: number;
};

/** An opaque text for a URL. */
export function writeCursor({ fromMs, atUs, position }: Cursor): string {
  return Buffer.from(`${fromMs}.${atUs}.${position}`).toString('base64url');
}

/** @returns null for an invalid cursor. */
export function readCursor(text: string): Cursor | null {
  const match = /^(-?\d{1,15})\.(-?\d{1,16})\.(\d{1,16})$/.exec(Buffer.from(text, 'base64url').toString());
  if (!match) return null;
  const [fromMs, atUs, position] = match.slice(1).map(Number) as [number, number, number];
  return [fromMs, atUs, position].every(Number.isSafeInteger) ? { fromMs, atUs, position } : null;
}
