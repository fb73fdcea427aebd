import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { SESSION_MAX_MS } from '#db/members/sessions.ts';
import { isSecure, type Reach } from '#server/sign-in/origin.ts';

/**
 * The cookie that holds a session's secret. Over TLS its name begins with `__Host-`, which browsers accept
 * from no other host and no plain connection. Over plain HTTP, where browsers reject that prefix, it has
 * another name; each is read only where it is set.
 */
const SECURE_NAME = '__Host-daybook';
const PLAIN_NAME = 'daybook';

/** 256 bits in base 62, for sessions and links. */
export const SECRET_CHARACTERS = 43;
const TOKEN = /^[0-9A-Za-z]{43}$/;

/** The stored digest of a session secret. The secret is random, so a plain hash suffices. */
export const digestOf = (token: string): Buffer => createHash('sha256').update(token).digest();

/** The session secret of a request; null: none, or more than one. */
export function readCookie(request: IncomingMessage, reach: Reach): string | null {
  const { cookie } = request.headers;
  if (cookie === undefined) return null;
  const name = isSecure(request, reach) ? SECURE_NAME : PLAIN_NAME;
  const values = cookie.split(';').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : [];
  });
  const [token, second] = values;
  return token !== undefined && second === undefined && TOKEN.test(token) ? token : null;
}

export function setCookie(
  request: IncomingMessage,
  response: ServerResponse,
  reach: Reach,
  token: string,
): void {
  set(request, response, reach, token, SESSION_MAX_MS / 1_000);
}

export function clearCookie(request: IncomingMessage, response: ServerResponse, reach: Reach): void {
  set(request, response, reach, '', 0);
}

function set(
  request: IncomingMessage,
  response: ServerResponse,
  reach: Reach,
  value: string,
  maxAgeS: number,
): void {
  const isTls = isSecure(request, reach);
  const name = isTls ? SECURE_NAME : PLAIN_NAME;
  response.setHeader(
    'set-cookie',
    `${name}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${isTls ? '; Secure' : ''}`,
  );
}
