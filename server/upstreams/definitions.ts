import type { Upstream } from '#db/fold/upstream.ts';
import type { CredentialStore } from '#server/upstreams/credential-store.ts';
import type { UpstreamDefinition } from '#server/upstreams/upstream.ts';

const NO_SECRET = [{ id: null, secret: '' }];

/**
 * The upstreams of a process: those in the log first, then those in its environment whose names are not in
 * the log. An upstream whose credentials can't be opened has none, and is not called.
 */
export function definitionsOf(
  upstreams: Iterable<Upstream>,
  secrets: Pick<CredentialStore, 'openOf'>,
  configured: readonly UpstreamDefinition[],
): UpstreamDefinition[] {
  const active = [...upstreams].filter(({ state }) => state === 'active');
  const names = new Set(active.map(({ name }) => name));
  return [
    ...active.map((upstream) => ({
      name: upstream.name,
      terms: upstream.terms,
      credentials: upstream.credentials.length === 0 ? NO_SECRET : secrets.openOf(upstream),
    })),
    ...configured.filter(({ name }) => !names.has(name)),
  ];
}
