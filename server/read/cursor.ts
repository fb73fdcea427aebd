/**
 * Where a list goes on: below the last request that was looked at, in the time that the first page chose.
 * Pure.
 */
export type Cursor = {
  /** The beginning of the time that is listed, in whole milliseconds since 1970. */
  fromMs: number;
  /** When the last request was accepted, in microseconds since 1970: as exact as Postgres orders them. */
  atUs: number;
  /** Its position, which tells apart those of one moment. */
  position: number;
};

/** An opaque text for a URL. */
export function writeCursor({ fromMs, atUs, position }: Cursor): string {
  return Buffer.from(`${fromMs}.${atUs}.${position}`).toString('base64url');
}

/** @returns null where the text is no cursor of ours. */
export function readCursor(text: string): Cursor | null {
  const match = /^(-?\d{1,15})\.(-?\d{1,16})\.(\d{1,16})$/.exec(Buffer.from(text, 'base64url').toString());
  if (!match) return null;
  const [fromMs, atUs, position] = match.slice(1).map(Number) as [number, number, number];
  return [fromMs, atUs, position].every(Number.isSafeInteger) ? { fromMs, atUs, position } : null;
}
