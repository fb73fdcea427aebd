import { Agent, fetch as undiciFetch } from 'undici';
import { type Network } from '#server/upstreams/addresses.ts';
import { guardedConnector } from '#server/upstreams/connect.ts';

/** Metadata, keys and tokens have some kilobytes. */
const REPLY_BYTES_MAX = 1024 * 1024;
const CONNECT_TIMEOUT_MS = 5_000;
/** For a whole request to a provider. */
export const PROVIDER_TIMEOUT_MS = 10_000;
const CONNECTIONS_MAX = 4;

/** A `fetch` of its own connections, which reaches allowed addresses alone and reads bounded replies. */
export function guardedFetch(network: Network): { fetch: typeof fetch; close: () => Promise<void> } {
  const dispatcher = new Agent({
    connect: guardedConnector({ network, timeoutMs: CONNECT_TIMEOUT_MS }),
    connections: CONNECTIONS_MAX,
    maxResponseSize: REPLY_BYTES_MAX,
    headersTimeout: PROVIDER_TIMEOUT_MS,
    bodyTimeout: PROVIDER_TIMEOUT_MS,
  });
  const send = (url: unknown, options: object | undefined) =>
    undiciFetch(url as string, { ...options, dispatcher });
  return { fetch: send, close: () => dispatcher.close() };
}
