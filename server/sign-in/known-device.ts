import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { readNamedCookie, setNamedCookie } from '#server/sign-in/cookie.ts';
import type { Reach } from '#server/sign-in/origin.ts';

/**
 * The cookie by which a browser is known in which a member has signed in before: its attempts aren't counted
 * together with those of strangers. It grants no access. A random id, the time, and a keyed hash over both
 * and the email: no table, and no use for another email.
 */
const NAME = 'daybook-device';
/** As long as people stay away and expect to be known. */
const KNOWN_FOR_MS = 180 * 24 * 60 * 60 * 1000;
const ID_BYTES = 12;
const VALUE = /^([0-9A-Za-z_-]{16})\.(\d{1,12})\.([0-9A-Za-z_-]{43})$/;

/** The id of the device; null if the browser is not known for this email. */
export function readKnownDevice(
  request: IncomingMessage,
  reach: Reach,
  pepper: Buffer,
  email: string,
  nowMs: number,
): string | null {
  const [, id = '', atS = '', digest = ''] = VALUE.exec(readNamedCookie(request, reach, NAME) ?? '') ?? [];
  if (id === '' || nowMs - Number(atS) * 1_000 > KNOWN_FOR_MS) return null;
  const expected = Buffer.from(sign(pepper, id, atS, email));
  return timingSafeEqual(expected, Buffer.from(digest)) ? id : null;
}

/** Makes the browser known for this email, for {@link KNOWN_FOR_MS}. */
export function setKnownDevice(
  request: IncomingMessage,
  response: ServerResponse,
  reach: Reach,
  pepper: Buffer,
  email: string,
  nowMs: number,
): void {
  const id = randomBytes(ID_BYTES).toString('base64url');
  const atS = String(Math.floor(nowMs / 1_000));
  const value = `${id}.${atS}.${sign(pepper, id, atS, email)}`;
  setNamedCookie(request, response, reach, NAME, value, KNOWN_FOR_MS / 1_000);
}

const sign = (pepper: Buffer, id: string, atS: string, email: string): string =>
  createHmac('sha256', pepper)
    .update(JSON.stringify(['daybook known device', id, atS, email]))
    .digest('base64url');
