import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { allCredentials } from '#db/fold/upstream.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { readSecret } from '#server/cli/input.ts';
import { onLog } from '#server/cli/log/on-log.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';
import type { CreatedCredential, UpstreamRow } from '#server/contract/upstreams.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { type Rekeyed, rekey } from '#server/secrets/master-key.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';

/** `daybook credential …` and `daybook rekey`. Secrets are write-only. */
export function credentialCommands(program: Command): void {
  const credential = program
    .command('credential')
    .alias('credentials')
    .description('credentials of upstreams, encrypted and never shown again');

  withServer(credential.command('add').argument('<upstream>', "the upstream's name"))
    .description('add a credential, read from standard input or a file')
    .requiredOption('--label <label>', 'a label to recognize it by')
    .option('--file <file>', 'a file that contains only the secret')
    .option('--billing', "an admin key that reads the provider's bills; no call is sent with it")
    .action(async (upstream: string, { label, file, billing }: AddOptions, command: Command) => {
      const secret = await readSecret(command, file);
      await run(
        command,
        async (session): Promise<Added> => {
          const { id, last4 } = await controlOf(session).addCredential(upstream, {
            label,
            secret,
            ...(billing ? { purpose: 'billing' } : {}),
          });
          return {
            id,
            upstream,
            label: label.trim(),
            last4,
            purpose: billing ? 'billing' : 'calls',
            master_key_file: masterKeyFile(session.config),
          };
        },
        showAdded,
        {
          async remote(api): Promise<Added> {
            if (billing) throw new DecisionError('invalid', '--billing works beside the database only.');
            const { id, last4 } = await api.post<CreatedCredential>(
              `upstreams/${encodeURIComponent(upstream)}/credentials`,
              { label, secret },
            );
            return { id, upstream, label: label.trim(), last4, purpose: 'calls', master_key_file: null };
          },
        },
      );
    });

  withServer(credential.command('list').argument('[upstream]', "the upstream's name"))
    .description('list credentials of one upstream or of all, without secrets')
    .action((upstream: string | undefined, _options: unknown, command: Command) =>
      run(command, (session) => listCredentials(session, upstream), showCredentials, {
        remote: (api) => credentialsOf(api, upstream),
      }),
    );

  withServer(credential.command('remove').argument('<id>', "the credential's id"))
    .description('remove a credential permanently')
    .action((id: string, _options: unknown, command: Command) =>
      run(
        command,
        async (session) => {
          const upstream = ownerOf(await listCredentials(session), id);
          await controlOf(session).removeCredential(upstream, id);
          return { id, upstream };
        },
        ({ upstream }) =>
          `Credential ${id} of upstream "${upstream}" is removed. Revoke it at the provider too.`,
        {
          async remote(api) {
            const upstream = ownerOf(await credentialsOf(api), id);
            await api.delete(`upstreams/${encodeURIComponent(upstream)}/credentials/${id}`);
            return { id, upstream };
          },
        },
      ),
    );

  withJson(program.command('rekey'))
    .description('rotate the master key without downtime: credentials are encrypted again with a new one')
    .option(
      '--by-hand',
      'the file has the new key as its first line already, for files that are mounted read-only',
    )
    .action((options: { byHand?: true }, command: Command) =>
      onLog(command, 'relay', async (client, config) => {
        const file = masterKeyFile(config);
        print(command, { ...(await rekey(client, file, options.byHand === true)), file }, showRekeyed);
      }),
    );
}

const controlOf = ({ control, client, config }: Session): UpstreamControl =>
  new UpstreamControl(control, client, config);

type AddOptions = { label: string; file?: string; billing?: true };

type Added = Omit<Listed, 'added_at'> & { master_key_file: string | null };

type Listed = {
  id: string;
  upstream: string;
  label: string;
  last4: string;
  purpose: 'calls' | 'billing';
  added_at: string;
};

async function listCredentials({ control }: Session, only?: string): Promise<Listed[]> {
  const { directory } = await control.load();
  return [...directory.upstreams]
    .filter(({ name, state }) => state === 'active' && (only === undefined || name === only))
    .flatMap((upstream) =>
      allCredentials(upstream).map(({ id, label, last4, addedAt }) => ({
        id,
        upstream: upstream.name,
        label,
        last4,
        purpose: upstream.credentials.some((each) => each.id === id) ? 'calls' : 'billing',
        added_at: addedAt.toISOString(),
      })),
    );
}

/** Those of the log: others have no id. */
async function credentialsOf(api: ManagementApi, only?: string): Promise<Listed[]> {
  const upstreams = await api.list<UpstreamRow>('upstreams');
  return upstreams
    .filter(({ name }) => only === undefined || name === only)
    .flatMap((upstream) =>
      upstream.credentials.flatMap(({ id, label, last4, added_at }): Listed[] =>
        id === null || added_at === null
          ? []
          : [{ id, upstream: upstream.name, label, last4, purpose: 'calls', added_at }],
      ),
    );
}

function ownerOf(credentials: readonly Listed[], id: string): string {
  const found = credentials.find((each) => each.id === id);
  if (!found) throw new DecisionError('not_found', `There is no credential ${id}.`);
  return found.upstream;
}

function showAdded({ id, upstream, purpose, master_key_file: file }: Added): string {
  const kind = purpose === 'billing' ? 'Billing credential' : 'Credential';
  const added = `${kind} ${id} of upstream "${upstream}" is added, encrypted with the master key`;
  return file === null
    ? `${added} of the server.`
    : `${added} in ${file}. Keep a copy of that file apart from backups.`;
}

function showCredentials(credentials: Listed[]): string {
  if (credentials.length === 0)
    return [
      'There are no credentials. Add one with:',
      'npm run -s daybook -- credential add UPSTREAM --label main',
    ].join(' ');
  return showTable(
    ['ID', 'UPSTREAM', 'PURPOSE', 'ENDS IN', 'ADDED', 'LABEL'],
    credentials.map(({ id, upstream, label, last4, purpose, added_at }) => [
      id,
      upstream,
      purpose,
      last4 === '' ? '-' : `…${last4}`,
      added_at.slice(0, 10),
      label,
    ]),
  );
}

function showRekeyed({
  master_key,
  rewrapped,
  attribution_keys,
  damaged,
  damaged_attribution,
  dropped,
  kept,
  file,
}: Rekeyed & { file: string }): string {
  return [
    `The master key is now ${master_key}, in ${file}. Credentials encrypted with it: ${rewrapped}.`,
    ...(attribution_keys > 0 ? [`Keys of attribution encrypted with it: ${attribution_keys}.`] : []),
    ...(damaged.length > 0
      ? [`These can't be decrypted and are unchanged; remove and add them again: ${damaged.join(', ')}.`]
      : []),
    ...(damaged_attribution.length > 0
      ? [
          `The keys of attribution of these accounts can't be decrypted and are unchanged; destroy them: ` +
            `${damaged_attribution.join(', ')}.`,
        ]
      : []),
    ...(dropped.length > 0
      ? [
          [
            `Removed from the file, since nothing needs them: ${dropped.join(', ')}.`,
            'Older backups still do: keep your copy of the file as long as you keep those.',
          ].join(' '),
        ]
      : []),
    ...(kept.length > 0 ? [`Still in the file: ${kept.join(', ')}.`] : []),
    'Copy the file to your other hosts and to your backup.',
  ].join('\n');
}
