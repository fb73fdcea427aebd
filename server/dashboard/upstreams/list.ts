import type { Upstream as Logged } from '#db/fold/upstream.ts';
import type { Config } from '#server/process/config.ts';
import type { CredentialRow, UpstreamRow } from '#server/contract/upstreams.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

/**
 * The upstreams as people see them: what the log or the environment says of each, beside how this process
 * finds it.
 */
export function listUpstreams(
  { upstreams, readModel: { directory } }: Pick<Relay, 'upstreams' | 'readModel'>,
  config: Pick<Config, 'upstreams'>,
  nowMs: number,
): UpstreamRow[] {
  const configured = new Map(config.upstreams.map(({ name, api_key: secret }) => [name, secret !== '']));
  return upstreams.all.map((upstream) => {
    const { name, terms, routes, pools: lines, circuit: health } = upstream;
    const known = directory.upstream(name);
    const logged = known?.state === 'active' ? known : null;
    const source = logged ? 'log' : configured.has(name) ? 'environment' : 'demo';
    return {
      name,
      source,
      terms,
      routes: [...routes],
      state: terms.paused ? 'paused' : lines.length === 0 ? 'no_credential' : 'in_use',
      health: health.status(nowMs),
      credentials:
        logged && logged.credentials.length > 0
          ? ofLog(logged, upstream, nowMs)
          : [unlogged(upstream, source !== 'log' && configured.get(name) !== false, nowMs)],
      position: logged?.position ?? null,
      version: logged?.version ?? null,
    };
  });
}

function ofLog({ credentials }: Logged, { pools: lines }: Upstream, nowMs: number): CredentialRow[] {
  return credentials.map(({ id, label, last4, addedAt }) => ({
    id,
    source: 'log',
    label,
    last4,
    added_at: addedAt.toISOString(),
    health: lines.find(({ credential }) => credential === id)?.circuit.status(nowMs) ?? null,
  }));
}

/** @param hasSecret whether the environment gives one. */
function unlogged({ pools: lines }: Upstream, hasSecret: boolean, nowMs: number): CredentialRow {
  return {
    id: null,
    source: hasSecret ? 'environment' : 'none',
    label: '',
    last4: '',
    added_at: null,
    health: lines[0]?.circuit.status(nowMs) ?? null,
  };
}
