import { Option } from 'commander';
import { ATTRIBUTION_KIND_NAMES, type AttributionKind } from '#db/attribution/value.ts';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { readSecret } from '#server/cli/input.ts';
import { AttributionControl, type Wanted } from '#server/control/attribution-control.ts';
import { isChange } from '#server/control/change.ts';
import { DecisionError } from '#server/decide/decision.ts';

type Options = {
  account: string;
  user?: string;
  session?: string;
  tag?: string;
  pseudonym?: string;
  kind?: AttributionKind;
};

/** An option with this value is read from the input: arguments stand in the history of a shell. */
const FROM_INPUT = '-';
const WORDS: Record<AttributionKind, string> = { end_user: 'End user', session: 'Session', tag: 'Tag' };

/** `daybook attribution …` */
export function attributionCommands(program: Command): void {
  const attribution = program
    .command('attribution')
    .description('end users, sessions and tags of calls, which the log knows by pseudonyms');

  naming(withJson(attribution.command('show')))
    .description('show the pseudonym of a value, or the value of a pseudonym')
    .action((options: Options, command: Command) =>
      run(
        command,
        async (session) => controlOf(session).show(options.account, await readWanted(options, command)),
        ({ kind, pseudonym, value }) => `${WORDS[kind]} ${pseudonym}: ${value ?? 'no value is stored'}`,
      ),
    );

  naming(withJson(attribution.command('erase')))
    .description(
      'erase a value permanently; its pseudonym stays in the log, and all figures stay as they are',
    )
    .action((options: Options, command: Command) =>
      run(
        command,
        async (session) => {
          const wanted = await readWanted(options, command);
          const { kind, pseudonym, ...change } = await controlOf(session).erase(options.account, wanted);
          return { kind, pseudonym, changed: isChange(change) };
        },
        ({ kind, pseudonym, changed }) =>
          changed
            ? `${WORDS[kind]} ${pseudonym} is erased. Its value is not stored again.`
            : `${WORDS[kind]} ${pseudonym} was erased before.`,
      ),
    );

  withJson(attribution.command('destroy-key'))
    .description('erase all values of an account, and the key of its pseudonyms; later calls get others')
    .requiredOption('--account <name>', "the account's name")
    .action(({ account }: { account: string }, command: Command) =>
      run(
        command,
        async (session) => {
          const { values } = await controlOf(session).destroyKey(account);
          return { account, values };
        },
        ({ values }) =>
          `The key of attribution of account "${account}" is destroyed. Values erased: ${values}.\n` +
          'Backups from before contain the sealed key: delete them, or rotate the master key with rekey ' +
          'and delete the old one.',
      ),
    );
}

const controlOf = ({ control, client, config }: Session): AttributionControl =>
  new AttributionControl(control, client, masterKeyFile(config));

/** The options that name an account and one of its end users, sessions or tags. */
function naming(command: Command): Command {
  return command
    .requiredOption('--account <name>', "the account's name")
    .option('--user <value>', `the end user as clients send it; ${FROM_INPUT} reads it from the input`)
    .option('--session <value>', 'the session, likewise')
    .option('--tag <value>', 'the tag, likewise')
    .option('--pseudonym <pseudonym>', 'the pseudonym instead of a value')
    .addOption(
      new Option('--kind <kind>', 'of the pseudonym, if no value is stored').choices(ATTRIBUTION_KIND_NAMES),
    );
}

async function readWanted(options: Options, command: Command): Promise<Wanted> {
  const { user, session, tag, pseudonym, kind } = options;
  const given = [
    { kind: 'end_user', value: user },
    { kind: 'session', value: session },
    { kind: 'tag', value: tag },
  ] as const;
  const [named, ...others] = given.filter(({ value }) => value !== undefined);
  if (others.length > 0 || (named === undefined) === (pseudonym === undefined))
    throw new DecisionError('invalid', 'Name one of --user, --session, --tag and --pseudonym.');
  if (named?.value === undefined) return { pseudonym: pseudonym as string, kind };
  return {
    kind: named.kind,
    value: named.value === FROM_INPUT ? await readSecret(command, undefined) : named.value,
  };
}
