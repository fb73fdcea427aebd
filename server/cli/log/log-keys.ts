import type { Client } from 'pg';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { readStream } from '#db/log/read.ts';
import { LOG_STREAM } from '#db/events/streams.ts';
import { formatVerifierKey, parseNote, parseVerifierKey } from '#db/tlog/note.ts';
import { replaceSigner } from '#db/tlog/replace-signer.ts';
import { addSigningKey, dropOldKey, readSigners, signingKeyFile } from '#db/tlog/signing-key.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { newestCheckpoint } from '#server/cli/log/log-checkpoints.ts';
import { onLog } from '#server/cli/log/on-log.ts';

/** The actor recorded in the events of these commands. */
const ACTOR = 'command-line';

/** A key as `daybook log keys` shows it. */
type Listed = { verifier_key: string; position: number; since: Date; signs: boolean };

/** `daybook log keys`, `rotate-key`, `drop-key` and `replace-key`. */
export function logKeyCommands(log: Command): void {
  withJson(log.command('keys'))
    .description('list the keys that signed checkpoints, as the verifier keys of auditors and witnesses')
    .action((_options: unknown, command: Command) =>
      onLog(command, 'relay', async (client, config) =>
        print(command, await listKeys(client, config), showKeys),
      ),
    );

  withJson(log.command('rotate-key'))
    .description(
      'create a new signing key beside the current one, which signs too until it is dropped; run it where ' +
        'the worker runs',
    )
    .action((_options: unknown, command: Command) =>
      onLog(command, 'relay', async (client, config) => {
        const file = signingKeyFile(config);
        const { origin, signing } = await readLogState(client);
        const inUse = readSigners(file, origin)?.map(formatVerifierKey) ?? [];
        const known = signing.keys.at(-1)?.verifierKey;
        if (known === undefined)
          throw new StoreError(
            'no key has signed this log yet: the worker creates one with the first checkpoint',
          );
        if (!inUse.includes(known))
          throw new StoreError(
            `${file} does not contain the key that signs this log. Run this command where the worker runs, ` +
              'with its DAYBOOK_SIGNING_KEY_FILE',
          );
        change(file, addSigningKey);
        const [added] = readSigners(file, origin)?.map(formatVerifierKey) ?? [];
        print(command, { file, added, in_use: known }, ({ added: line }) =>
          [
            'The next checkpoint is signed by both keys. Give the new key to auditors and witnesses.',
            `When they have it, run: daybook log drop-key\n\n${line}`,
          ].join(' '),
        );
      }),
    );

  withJson(log.command('drop-key'))
    .description('drop the older of two signing keys, once auditors and witnesses have the newer one')
    .action((_options: unknown, command: Command) =>
      onLog(command, 'relay', async (client, config) => {
        const file = signingKeyFile(config);
        const keys = await listKeys(client, config);
        const { origin } = await readLogState(client);
        const newer = readSigners(file, origin)?.map(formatVerifierKey)[0];
        if (newer !== undefined && !keys.some(({ verifier_key, signs }) => verifier_key === newer && signs)) {
          throw new StoreError(
            'the newer key has not signed a checkpoint yet: wait until "daybook log keys" shows it signing',
          );
        }
        change(file, dropOldKey);
        print(
          command,
          { file, in_use: newer },
          ({ in_use }) => `From the next checkpoint on, only this key signs:\n\n${in_use}`,
        );
      }),
    );

  withJson(log.command('replace-key'))
    .description(
      'replace a lost signing key by the one in DAYBOOK_SIGNING_KEY_FILE, which is created if absent',
    )
    .option('--yes', 'replace the key')
    .action((options: { yes?: boolean }, command: Command) =>
      onLog(command, 'relay', async (client, config) => {
        if (options.yes !== true) {
          throw new StoreError(
            'the lost key cannot vouch for the new one, so you must give the new key to auditors ' +
              'and witnesses yourself. To continue: daybook log replace-key --yes',
          );
        }
        const replaced = await replaceSigner(client, signingKeyFile(config), ACTOR);
        print(
          command,
          replaced,
          ({ verifier_key, position }) =>
            `Recorded at position ${position}. The next checkpoint is signed by:\n\n${verifier_key}`,
        );
      }),
    );
}

/** Changes the key file. @throws {StoreError} when the file is read-only, such as a container's secret. */
function change(file: string, how: (file: string) => void): void {
  try {
    how(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof StoreError || code === undefined) throw error;
    throw new StoreError(
      `${file} can't be written (${code}): change it where it comes from. It contains one key in PEM, ` +
        'or two while both sign, the newer one first',
      { cause: error },
    );
  }
}

/** The keys, the oldest first. A key signs if the newest checkpoint has its signature. */
async function listKeys(client: Client, config: Parameters<typeof newestCheckpoint>[1]): Promise<Listed[]> {
  const newest = await newestCheckpoint(client, config);
  const signatures = newest === null ? [] : parseNote(newest.note).signatures;
  const events = await readStream(client, LOG_STREAM);
  return events.flatMap(({ event, position, at }) => {
    if (event.type !== 'log.signer_changed') return [];
    const { name, keyId } = parseVerifierKey(event.verifier_key);
    const signs = signatures.some((each) => each.name === name && each.keyId === keyId);
    return [{ verifier_key: event.verifier_key, position, since: at, signs }];
  });
}

function showKeys(keys: readonly Listed[]): string {
  if (keys.length === 0) return 'No key has signed yet: the worker creates one with the first checkpoint.';
  const rows = keys.map(({ verifier_key, position, since, signs }) => [
    String(position),
    since.toISOString(),
    signs ? 'signs' : '-',
    verifier_key,
  ]);
  return showTable(['FROM', 'SINCE', 'NOW', 'KEY'], rows);
}
