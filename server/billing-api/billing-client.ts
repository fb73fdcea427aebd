import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import {
  ATTEMPTS_MAX,
  CONNECT_TIMEOUT_MS,
  IMPORT_TIMEOUT_MS,
  PAGE_BYTES_MAX,
  REQUEST_TIMEOUT_MS,
  RETRY_AFTER_MAX_MS,
  RETRY_PAUSE_MS,
} from '#server/billing-api/bounds.ts';
import { BillingError } from '#server/billing-api/billing-error.ts';
import type { BillingApiName, Query } from '#server/billing-api/reports.ts';
import type { Network } from '#server/upstreams/addresses.ts';
import { ForbiddenAddress, guardedConnector } from '#server/upstreams/connect.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';

/** Requests to a provider's billing API: to checked addresses, bounded, and retried where that may help. */
export type BillingClient = AsyncDisposable & {
  /**
   * The text of a report's page.
   * @throws {BillingError}
   */
  get(path: string, query: Query): Promise<string>;
};

export type BillingClientOptions = {
  api: BillingApiName;
  baseUrl: string;
  network: Network;
  secret: string;
  /** Waits before a retry. */
  wait?: (ms: number, signal: AbortSignal) => Promise<unknown>;
};

export function openBillingClient({
  api,
  baseUrl,
  network,
  secret,
  wait = (ms, signal) => pause(ms, undefined, { signal }),
}: BillingClientOptions): BillingClient {
  const base = new URL(baseUrl);
  const pool = new Pool(base.origin, {
    connections: 1,
    pipelining: 1,
    connect: guardedConnector({ network, timeoutMs: CONNECT_TIMEOUT_MS }),
  });
  const headers = {
    accept: 'application/json',
    'accept-encoding': 'identity',
    'user-agent': 'daybook',
    ...credentialHeaders(api, secret),
  };
  const deadline = AbortSignal.timeout(IMPORT_TIMEOUT_MS);

  async function attempt(path: string): Promise<Attempt> {
    try {
      const signal = AbortSignal.any([deadline, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
      const reply = await pool.request({ path, method: 'GET', headers, signal });
      const text = await readBody(reply.body as AsyncIterable<Buffer>);
      if (text === null) return { fault: 'A page of its report is too large.', retryAfterMs: null };
      if (reply.statusCode === 200) return { text };
      return {
        fault: explainStatus(reply.statusCode),
        retryAfterMs: mayRetry(reply.statusCode)
          ? (retryAfterOf(String(reply.headers['retry-after'] ?? '')) ?? 0)
          : null,
      };
    } catch (error) {
      if (error instanceof ForbiddenAddress) return { fault: error.message, retryAfterMs: null };
      return { fault: explainNetworkError(error), retryAfterMs: deadline.aborted ? null : 0 };
    }
  }

  return {
    async get(path, query) {
      const below = base.pathname === '/' ? '/v1' : base.pathname.replace(/\/$/, '');
      const parameters = new URLSearchParams(query.map(([name, value]) => [name, value]));
      const full = `${below}${path}?${parameters.toString()}`;
      for (let attempts = 1; ; attempts += 1) {
        const outcome = await attempt(full);
        if ('text' in outcome) return outcome.text;
        const { fault, retryAfterMs } = outcome;
        const pauseMs = Math.max(retryAfterMs ?? 0, RETRY_PAUSE_MS * 2 ** (attempts - 1));
        if (retryAfterMs === null || attempts >= ATTEMPTS_MAX || retryAfterMs > RETRY_AFTER_MAX_MS) {
          const after = attempts === 1 ? '' : ` after ${attempts} attempts`;
          const until = retryAfterMs ? ` It asks to wait ${Math.ceil(retryAfterMs / 1_000)} s.` : '';
          throw new BillingError(`Fetching ${path} failed${after}: ${fault}${until}`);
        }
        await wait(pauseMs, deadline).catch(() => undefined);
      }
    },
    async [Symbol.asyncDispose]() {
      await pool.destroy();
    },
  };
}

/** `retryAfterMs` is null where a retry can't help. */
type Attempt = { text: string } | { fault: string; retryAfterMs: number | null };

function credentialHeaders(api: BillingApiName, secret: string): Record<string, string> {
  switch (api) {
    case 'anthropic':
      return { 'x-api-key': secret, 'anthropic-version': '2023-06-01' };
    case 'openai':
    case 'openrouter':
      return { authorization: `Bearer ${secret}` };
  }
}

/** @returns null if the body is too large. */
async function readBody(body: AsyncIterable<Buffer>): Promise<string | null> {
  const bytes = new ByteCollector();
  for await (const chunk of body) {
    bytes.push(chunk);
    if (bytes.length > PAGE_BYTES_MAX) return null;
  }
  return bytes.take()?.toString() ?? '';
}

const mayRetry = (status: number): boolean => status === 408 || status === 429 || status >= 500;

/** A Retry-After in milliseconds: seconds, or a date. Null if it is neither. */
export function retryAfterOf(text: string, now = Date.now()): number | null {
  if (/^\d{1,9}(?:\.\d+)?$/.test(text)) return Math.ceil(Number(text) * 1_000);
  const at = text === '' ? NaN : Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(at - now, 0);
}

function explainStatus(status: number): string {
  if (status === 401 || status === 403)
    return (
      `The provider rejects the billing credential (${status}). Reports need an admin key: ` +
      'add one with "daybook credential add UPSTREAM --billing".'
    );
  if (status === 404) return "There is no such report at the upstream's base URL (404).";
  if (status === 429) return 'The provider limits the rate of requests (429).';
  if (status >= 500) return `The provider answers with a server error (${status}).`;
  if (status >= 300 && status < 400) return `The provider redirects (${status}), which is never followed.`;
  return `The provider rejects the request (${status}).`;
}

function explainNetworkError(error: unknown): string {
  const { name, code, cause } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  if (name === 'TimeoutError' || name === 'AbortError') return 'The provider did not answer in time.';
  const known = code ?? (cause as NodeJS.ErrnoException | undefined)?.code;
  return `The provider could not be reached${known === undefined ? '' : ` (${known})`}.`;
}
