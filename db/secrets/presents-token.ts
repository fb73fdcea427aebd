import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Whether a request carries this token as `Authorization: Bearer`. Nothing does where none is set. */
export function presentsToken({ headers }: IncomingMessage, token: string | undefined): boolean {
  if (token === undefined) return false;
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token}`));
}
