import { type Command, FoundFault } from '#db/command-line/command.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { UpstreamTestResult } from '#server/contract/upstreams.ts';

const MARKS = { valid: 'ok  ', unknown: '?   ', invalid: 'FAIL' };

/** `daybook upstream test` */
export function testCommand(upstream: Command): void {
  withServer(upstream.command('test').argument('<name>', "the upstream's name"))
    .description('test an upstream: list its models with each of its credentials; exits with 1 on a failure')
    .action(async (name: string, _options: unknown, command: Command) => {
      let isSound = true;
      await run(
        command,
        async (session) => {
          // With its modules, every command on upstreams would load those that call them.
          const { testCredentials } = await import('#server/cli/upstreams/test-credentials.ts');
          const tested = await testCredentials(session, name);
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
        {
          async remote(api) {
            const path = `upstreams/${encodeURIComponent(name)}/test`;
            const { data: results } = await api.post<UpstreamTestResult>(path);
            isSound = results.every(({ outcome }) => outcome !== 'invalid');
            return { name, results };
          },
        },
      );
      if (!isSound) throw new FoundFault();
    });
}
