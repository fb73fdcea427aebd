import {
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  type JWTVerifyGetKey,
  type RemoteJWKSet,
} from 'jose';
import { z } from 'zod';
import type { Workload } from '#db/fold/workload.ts';
import { guardedFetch, PROVIDER_TIMEOUT_MS } from '#server/sign-in/oidc/guarded-fetch.ts';
import {
  ISSUER_KEYS_MAX_MS,
  ISSUER_METADATA_MAX_MS,
  ISSUER_RETRY_MS,
  KEYS_REREAD_MS,
} from '#server/workloads/bounds.ts';

/** The keys of an issuer can't be read. A token may be valid all the same. */
export class IssuerUnavailableError extends Error {
  override name = 'IssuerUnavailableError';
}

type Keys = { version: number; find: JWTVerifyGetKey; close: () => void };

/** The public keys of the issuers of all workloads. Those of each are read when they are first needed. */
export class IssuerKeys {
  readonly #keys = new Map<string, Keys>();

  /** Finds the key of a token of this workload. @throws {IssuerUnavailableError} */
  of(workload: Workload): JWTVerifyGetKey {
    const { name, version, terms } = workload;
    const known = this.#keys.get(name);
    if (known?.version === version) return known.find;
    known?.close();
    const keys: Keys =
      terms.jwks === null
        ? { version, ...published(terms) }
        : { version, find: createLocalJWKSet({ keys: terms.jwks.map(withoutAbsent) }), close: () => {} };
    this.#keys.set(name, keys);
    return keys.find;
  }
}

const withoutAbsent = (jwk: object) =>
  Object.fromEntries(Object.entries(jwk).filter(([, value]) => value !== undefined)) as { kty: string };

const Metadata = z.object({ issuer: z.string(), jwks_uri: z.url().max(2_000) });

/** Those that an issuer publishes. However many tokens come, it is asked seldom. */
function published({ issuer, network }: Workload['terms']): Omit<Keys, 'version'> {
  const { fetch: send, close } = guardedFetch(network);
  let opened: { set: Promise<RemoteJWKSet>; untilMs: number } | undefined;
  let failedUntilMs = 0;

  const read = async (url: string, options: RequestInit): Promise<Response> => {
    if (performance.now() < failedUntilMs) throw new IssuerUnavailableError(issuer);
    try {
      const reply = await send(url, options);
      if (reply.status !== 200) throw new IssuerUnavailableError(issuer);
      return reply;
    } catch (error) {
      failedUntilMs = performance.now() + ISSUER_RETRY_MS;
      throw new IssuerUnavailableError(issuer, { cause: error });
    }
  };
  const open = async (): Promise<RemoteJWKSet> => {
    const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const signal = AbortSignal.timeout(PROVIDER_TIMEOUT_MS);
    const reply = await read(address, { redirect: 'manual', signal });
    const metadata = Metadata.safeParse(await reply.json().catch(() => null));
    const keysAt = URL.parse(metadata.data?.jwks_uri ?? '');
    // Keys over plain HTTP could be anyone's.
    if (metadata.data?.issuer !== issuer || keysAt?.protocol !== new URL(issuer).protocol) {
      failedUntilMs = performance.now() + ISSUER_RETRY_MS;
      throw new IssuerUnavailableError(issuer);
    }
    return createRemoteJWKSet(keysAt, {
      [customFetch]: read,
      timeoutDuration: PROVIDER_TIMEOUT_MS,
      cooldownDuration: KEYS_REREAD_MS,
      cacheMaxAge: ISSUER_KEYS_MAX_MS,
    });
  };
  const find: JWTVerifyGetKey = async (header, token) => {
    if (opened === undefined || opened.untilMs < performance.now()) {
      const opening = { set: open(), untilMs: performance.now() + ISSUER_METADATA_MAX_MS };
      opened = opening;
      opening.set.catch(() => {
        if (opened === opening) opened = undefined;
      });
    }
    return (await opened.set)(header, token);
  };
  return { find, close: () => void close() };
}
