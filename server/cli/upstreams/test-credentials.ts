import { masterKeyFile } from '#db/secrets/master-key.ts';
import type { Session } from '#server/cli/control-session.ts';
import type { CredentialTestResult } from '#server/contract/upstreams.ts';
import { requireUpstream } from '#server/decide/upstream.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { guardedConnector } from '#server/upstreams/connect.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';
import { testUpstream } from '#server/upstreams/test-upstream.ts';
import { openUpstream } from '#server/upstreams/upstream.ts';

/** Long enough for a distant provider, and short enough for an interactive command. */
const TEST_TIMEOUT_MS = 10_000;

/** An upstream, and the result of each of its credentials. */
export type Tested = { name: string; results: CredentialTestResult[] };

/**
 * Lists the models of an upstream with each of its credentials.
 * @throws {DecisionError} if there is no such upstream.
 */
export async function testCredentials({ config, control, client }: Session, name: string): Promise<Tested> {
  const { terms, credentials } = requireUpstream(await control.loadUpstream(name), name);
  const { secrets } = await openCredentials(
    client,
    readKeys(masterKeyFile(config)),
    credentials.map(({ id }) => id),
  );
  const open = [...secrets].map(([id, secret]) => ({ id, secret }));
  const connect = guardedConnector({ network: terms.network, timeoutMs: config.UPSTREAM_CONNECT_TIMEOUT_MS });
  const upstream = openUpstream(
    { name, terms, credentials: credentials.length === 0 ? [{ id: null, secret: '' }] : open },
    () => connect,
  );
  try {
    return { name, results: await testUpstream(upstream, credentials, TEST_TIMEOUT_MS) };
  } finally {
    await Promise.all(upstream.pools.map((pool) => pool.destroy()));
  }
}
