import { Option } from 'commander';
import { collect, type Command } from '#db/command-line/command.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import {
  DIALECTS,
  PROVIDERS,
  RETRIES_MAX,
  TokenLimitMember,
  UpstreamTerms,
} from '#db/events/upstream-events.ts';
import { checkTerms } from '#server/cli/accounts/terms-file.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The terms of an upstream as options of a command. */

export type TermsOptions = {
  provider?: string;
  dialect?: string;
  baseUrl?: string;
  package?: string;
  option?: string[];
  models?: string;
  routes?: string;
  tokenLimit?: string;
  network?: string;
  onClientDisconnect?: string;
  retries?: string;
};

/** Adds these options to a command. */
export function withTerms(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--provider <name>',
        'the protocol of its API: openai for all that are compatible with OpenAI',
      ).choices(PROVIDERS),
    )
    .addOption(
      new Option(
        '--dialect <name>',
        'the provider of an OpenAI-compatible API, with --provider openai',
      ).choices(DIALECTS),
    )
    .option(
      '--base-url <url>',
      'its base address, such as https://llm.example.com/v1; default: that of the --dialect, if it has one',
    )
    .option('--models <list>', 'the models it serves, names and patterns separated by commas: gpt-*,o1')
    .addOption(
      new Option(
        '--network <which>',
        'private allows addresses on this machine and in private networks',
      ).choices(UpstreamTermsChoices.network),
    )
    .option('--package <name>', 'the npm package to load, with --provider bridge')
    .option(
      '--option <name=value>',
      'an option of that package, such as region=eu-west-1; repeatable. Never a secret',
      collect,
    )
    .option(
      '--routes <list>',
      `the routes it supports, of ${RELAYED_ROUTES.join(', ')}; default: those of its dialect`,
    )
    .addOption(
      new Option(
        '--token-limit <member>',
        'the request field that limits reply tokens, for calls without one',
      ).choices(TokenLimitMember.options),
    )
    .addOption(
      new Option(
        '--on-client-disconnect <what>',
        'after a client disconnects, cancel the call or read its reply to the end',
      ).choices(UpstreamTermsChoices.on_client_disconnect),
    )
    .option(
      '--retries <n>',
      `retries of a failed call at this upstream before its first byte, 0 to ${RETRIES_MAX}`,
    );
}

const UpstreamTermsChoices = { network: ['public', 'private'], on_client_disconnect: ['cancel', 'drain'] };

/**
 * The terms of an upstream from the options.
 * @param before the current terms of a changed upstream; absent: fields without an option have their
 *   defaults.
 * @param drop the names of fields to reset to their defaults.
 * @throws {DecisionError} naming the invalid field.
 */
export function readUpstreamTerms(
  options: TermsOptions,
  before?: UpstreamTerms,
  drop: readonly string[] = [],
): UpstreamTerms {
  const terms: Record<string, unknown> = { ...before };
  for (const field of drop) {
    if (!(field in UpstreamTerms.shape))
      throw new DecisionError(
        'invalid',
        `--drop: "${field}" is not one of ${Object.keys(UpstreamTerms.shape).join(', ')}.`,
      );
    delete terms[field];
  }
  const {
    provider,
    dialect,
    baseUrl,
    package: name,
    option,
    models,
    routes,
    tokenLimit,
    network,
    onClientDisconnect,
    retries,
  } = options;
  const given = {
    provider,
    dialect,
    base_url: baseUrl,
    package: name,
    options: option && Object.fromEntries(option.map(readOption)),
    models: list(models),
    routes: list(routes),
    token_limit: tokenLimit,
    network,
    on_client_disconnect: onClientDisconnect,
    retries: retries === undefined ? undefined : Number(retries),
  };
  for (const [field, value] of Object.entries(given)) if (value !== undefined) terms[field] = value;
  return checkTerms(UpstreamTerms, terms, '');
}

const list = (text: string | undefined): string[] | undefined =>
  text
    ?.split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');

/** Parses numbers and booleans, since packages distinguish them from strings. */
function readOption(text: string): [string, string | number | boolean] {
  const at = text.indexOf('=');
  if (at < 1) throw new DecisionError('invalid', `--option "${text}" is not of the form name=value.`);
  const value = text.slice(at + 1);
  if (value === 'true' || value === 'false') return [text.slice(0, at), value === 'true'];
  return [text.slice(0, at), /^-?\d{1,15}(\.\d{1,9})?$/.test(value) ? Number(value) : value];
}
