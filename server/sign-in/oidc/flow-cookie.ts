import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { seal, unseal } from '#db/secrets/seal.ts';
import { readNamedCookie, setNamedCookie } from '#server/sign-in/cookie.ts';
import type { Reach } from '#server/sign-in/origin.ts';

/**
 * A sign-in through a provider between its start and the callback. It is in a sealed cookie, so that only the
 * browser that began it can finish it, on any server.
 */
const NAME = 'daybook-oidc';
const PURPOSE = 'daybook OpenID sign-in';
/** As long as signing in at a provider takes, with a second factor. */
export const FLOW_MAX_MS = 10 * 60 * 1000;

const Flow = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  /** Where the page goes afterwards. */
  next: z.string(),
  expiresMs: z.number(),
});
export type Flow = z.infer<typeof Flow>;

export function setFlow(
  request: IncomingMessage,
  response: ServerResponse,
  { reach, pepper }: { reach: Reach; pepper: Buffer },
  provider: string,
  flow: Flow,
): void {
  const sealed = seal(pepper, PURPOSE, provider, JSON.stringify(flow)).toString('base64url');
  setNamedCookie(request, response, reach, NAME, sealed, FLOW_MAX_MS / 1_000);
}

/** The flow of this browser with this provider; null: none, or an expired one. */
export function readFlow(
  request: IncomingMessage,
  { reach, pepper }: { reach: Reach; pepper: Buffer },
  provider: string,
  nowMs: number,
): Flow | null {
  const value = readNamedCookie(request, reach, NAME);
  if (value === null) return null;
  try {
    const text = unseal(pepper, PURPOSE, provider, Buffer.from(value, 'base64url'));
    const flow = Flow.parse(JSON.parse(text));
    return flow.expiresMs > nowMs ? flow : null;
  } catch {
    return null;
  }
}

export function clearFlow(request: IncomingMessage, response: ServerResponse, reach: Reach): void {
  setNamedCookie(request, response, reach, NAME, '', 0);
}

/** The page to open after signing in: a path of this origin. Pure. */
export function safeNext(next: unknown): string {
  const here = 'http://here.invalid';
  if (typeof next !== 'string' || !next.startsWith('/') || next.length > 1_000) return '/';
  const url = URL.parse(next, here);
  return url?.origin === here ? `${url.pathname}${url.search}` : '/';
}
