import { type Command, FoundFault } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { requireUpstream } from '#server/decide/upstream.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { guardedConnector } from '#server/upstreams/connect.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';
import { testUpstream } from '#server/upstreams/test-upstream.ts';
import type { CredentialTestResult } from '#server/contract/upstreams.ts';
import { openUpstream } from '#server/upstreams/upstream.ts';

/** Long enough for a distant provider, and short enough for an interactive command. */
const TEST_TIMEOUT_MS = 10_000;

const MARKS = { valid: 'ok  ', unknown: '?   ', invalid: 'FAIL' };

type Tested = { name: string; results: CredentialTestResult[] };

/** `daybook upstream test` */
export function testCommand(upstream: Command): void {
  withJson(upstream.command('test').argument('<name>', "the upstream's name"))
    .description('test an upstream: list its models with each of its credentials; exits with 1 on a failure')
    .action(async (name: string, _options: unknown, command: Command) => {
      let isSound = true;
      await run(
        command,
        async (session) => {
          const tested = await test(session, name);
          isSound = tested.results.every(({ outcome }) => outcome !== 'invalid');
          return tested;
        },
        ({ results }) =>
          results
            .map(({ label, outcome, models, error }) =>
              [
                `${MARKS[outcome]} ${name}${label === '' ? '' : `, ${label}`}:`,
                error ?? `It lists ${models} models.`,
              ].join(' '),
            )
            .join('\n'),
      );
      if (!isSound) throw new FoundFault();
    });
}

async function test({ config, control, client }: Session, name: string): Promise<Tested> {
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
