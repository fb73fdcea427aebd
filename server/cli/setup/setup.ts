import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { Argument, Option } from 'commander';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { undoSettings, writeSettings } from '#server/cli/setup/settings-file.ts';
import {
  type ClientId,
  CLIENTS,
  type ClientSetup,
  type RelayAddress,
  type SettingsFile,
  settingsText,
  setupOf,
  shellLines,
} from '#server/contract/client-setup.ts';
import { ModelName } from '#db/events/parts.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { readConfig } from '#server/process/config.ts';

type Options = { model?: string; baseUrl?: string; write?: true; undo?: true };

/** What `daybook setup` did, or would do. */
type Done = {
  client: ClientId;
  /** The settings file; null where the client has none to write. */
  file: string | null;
  settings: string | null;
  /** Lines for a shell, with a placeholder for the key. */
  shell: string;
  note: string | null;
  state: 'printed' | 'written' | 'undone' | 'removed';
  backup: string | null;
};

const PLACEHOLDER = 'YOUR_API_KEY';

/** `daybook setup` */
export function setupCommand(program: Command): void {
  withJson(
    program.command('setup').addArgument(new Argument('<client>', 'the coding agent').choices(CLIENTS)),
  )
    .description(
      "print the configuration of a coding agent for this relay, or write it into the agent's settings, " +
        'whose other content stays; the key is in an environment variable',
    )
    .option('--model <name>', 'the model to use')
    .option(
      '--base-url <url>',
      'the address of the relay as the agent reaches it; default: PUBLIC_URL, or the port',
    )
    .option('--write', 'write the settings file, mode 0600; its former version stays beside it')
    .addOption(
      new Option('--undo', 'take back what --write wrote; other changes stay').conflicts([
        'write',
        'model',
        'baseUrl',
      ]),
    )
    .action((client: ClientId, options: Options, command: Command) => {
      const { env } = command.surroundings;
      print(command, options.undo === true ? undo(client, env) : setUp(client, options, env), show);
    });
}

function setUp(client: ClientId, { model, baseUrl, write }: Options, env: NodeJS.ProcessEnv): Done {
  if (model === undefined || !ModelName.safeParse(model).success)
    throw new DecisionError(
      'invalid',
      'Name a model of this relay with --model. "GET /v1/models" lists them.',
    );
  const to = { baseUrl: baseUrlOf(baseUrl, env), model };
  const setup = setupOf(client, to);
  const file = setup.file && pathOf(setup.file, env);
  const done = describe(client, setup, file);
  if (write !== true) return { ...done, state: 'printed', backup: null };
  if (file === null)
    throw new DecisionError('invalid', `${setup.name} writes its settings itself. Run:\n${done.shell}`);
  return { ...done, state: 'written', backup: writeSettings(file, client, to) };
}

function undo(client: ClientId, env: NodeJS.ProcessEnv): Done {
  const setup = setupOf(client, { baseUrl: '', model: '' });
  if (setup.file === null)
    throw new DecisionError(
      'invalid',
      `${setup.name} writes its settings itself, so there is nothing to undo.`,
    );
  const file = pathOf(setup.file, env);
  const { isRemoved } = undoSettings(file);
  return {
    client,
    file,
    settings: null,
    shell: [setup.keyVariable, ...setup.variables.map(([name]) => name)]
      .map((name) => `unset ${name}`)
      .join('\n'),
    note: null,
    state: isRemoved ? 'removed' : 'undone',
    backup: null,
  };
}

const describe = (
  client: ClientId,
  setup: ClientSetup,
  file: string | null,
): Omit<Done, 'state' | 'backup'> => ({
  client,
  file,
  settings: setup.file && settingsText(setup.file),
  shell: shellLines(setup, PLACEHOLDER),
  note: setup.note,
});

function show({ file, settings, shell, note, state, backup }: Done): string {
  const unset = `Remove its variables from your shell:\n\n${shell}`;
  if (state === 'removed') return `Removed ${file}, which setup had created.\n${unset}`;
  if (state === 'undone') return `Took the settings back: ${file}\n${unset}`;
  const verb = state === 'written' ? 'Then run' : 'Run';
  const inShell = `${verb} in your shell, with the secret of your key:\n\n${shell}`;
  const instructions = note === null ? inShell : `${inShell}\n\n${note}`;
  if (file === null) return instructions;
  if (state === 'printed') return `Add to ${file}:\n\n${settings}\n\n${instructions}`;
  return `Wrote ${file}.${backup === null ? '' : ` Its former version: ${backup}`}\n${instructions}`;
}

/** The address of the relay, which ends in `/v1`. @throws {DecisionError} where it isn't one. */
function baseUrlOf(given: string | undefined, env: NodeJS.ProcessEnv): RelayAddress['baseUrl'] {
  if (given === undefined) {
    const { PUBLIC_URL, PORT } = readConfig(env);
    return `${PUBLIC_URL ?? `http://127.0.0.1:${PORT}`}/v1`;
  }
  const url = URL.parse(given);
  if (
    url === null ||
    !/^https?:$/.test(url.protocol) ||
    url.username !== '' ||
    url.search !== '' ||
    url.hash !== ''
  )
    throw new DecisionError(
      'invalid',
      `--base-url: "${given}" is not an address such as https://relay.example/v1.`,
    );
  return `${given.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`;
}

/** Where a client looks for its settings: the first file that exists, or else the first one. */
function pathOf({ variable, directory, names }: SettingsFile, env: NodeJS.ProcessEnv): string {
  const set = variable === undefined ? undefined : env[variable];
  const base = set !== undefined && set !== '' ? set : path.join(env['HOME'] ?? homedir(), directory);
  const files = names.map((name) => path.join(base, name));
  return files.find((file) => existsSync(file)) ?? path.join(base, names[0]);
}
