import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { SESSION_MAX_MS } from '#db/members/sessions.ts';
import { isSecure, type Reach } from '#server/sign-in/origin.ts';

/**
 * The cookie that holds a session's secret. Over TLS the name of a cookie begins with `__Host-`, which
 * browsers accept from no other host and no plain connection. Over plain HTTP browsers reject that prefix;
 * each name is read only where it is set.
 */
const NAME = 'daybook';

/** 256 bits in base 62, for sessions and links. */
export const SECRET_CHARACTERS = 43;
const TOKEN = /^[0-9A-Za-z]{43}$/;

/** The stored digest of a session secret. The secret is random, so a plain hash suffices. */
export const digestOf = (token: string): Buffer => createHash('sha256').update(token).digest();

/** The session secret of a request; null: none, or more than one. */
export function readCookie(request: IncomingMessage, reach: Reach): string | null {
  const token = readNamedCookie(request, reach, NAME);
  return token !== null && TOKEN.test(token) ? token : null;
}

/** The value of a cookie by its plain name; null: none, or more than one. */
export function readNamedCookie(request: IncomingMessage, reach: Reach, plainName: string): string | null {
  const { cookie } = request.headers;
  if (cookie === undefined) return null;
  const name = nameOf(request, reach, plainName);
  const values = cookie.split(';').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : [];
  });
  const [token, second] = values;
  return token !== undefined && second === undefined ? token : null;
}

export function setCookie(
  request: IncomingMessage,
  response: ServerResponse,
  reach: Reach,
  token: string,
): void {
  setNamedCookie(request, response, reach, NAME, token, SESSION_MAX_MS / 1_000);
}

export function clearCookie(request: IncomingMessage, response: ServerResponse, reach: Reach): void {
  setNamedCookie(request, response, reach, NAME, '', 0);
}

/** Sets a cookie by its plain name, beside those that the response sets already. */
export function setNamedCookie(
  request: IncomingMessage,
  response: ServerResponse,
  reach: Reach,
  plainName: string,
  value: string,
  maxAgeS: number,
): void {
  const name = nameOf(request, reach, plainName);
  const secure = isSecure(request, reach) ? '; Secure' : '';
  response.appendHeader(
    'set-cookie',
    `${name}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${secure}`,
  );
}

function nameOf(request: IncomingMessage, reach: Reach, plainName: string): string {
  return isSecure(request, reach) ? `__Host-${plainName}` : plainName;
}
