import type { Upstream } from '#db/fold/upstream.ts';
import type { CredentialStore } from '#server/upstreams/credential-store.ts';
import type { UpstreamDefinition } from '#server/upstreams/upstream.ts';

const NO_SECRET = [{ id: null, secret: '' }];

/**
 * The upstreams that a process has: those of the log first, and of those that it was started with the
 * ones whose names the log does not take. One whose credentials do not open has no way to be called,
 * since nothing may go there without them.
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
