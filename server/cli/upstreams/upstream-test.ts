import { type Command, FoundFault } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { run } from '#server/cli/control-session.ts';

const MARKS = { valid: 'ok  ', unknown: '?   ', invalid: 'FAIL' };

/** `daybook upstream test` */
export function testCommand(upstream: Command): void {
  withJson(upstream.command('test').argument('<name>', "the upstream's name"))
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
      );
      if (!isSound) throw new FoundFault();
    });
}
