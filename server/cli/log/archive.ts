import { Option } from 'commander';
import path from 'node:path';
import type { Client } from 'pg';
import { archive, type ArchiveResult } from '#db/archive/archive.ts';
import type { Manifest } from '#db/archive/manifest.ts';
import { dropArchived, restorePartition } from '#db/archive/restore.ts';
import {
  type PartitionStatus,
  listPartitions,
  verifyArchivedControl,
  verifySeries,
} from '#db/archive/series.ts';
import { ARCHIVE_STATEMENT_TIMEOUT_MS } from '#db/bounds.ts';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { closeClient, connectAs, StoreError } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { readConfig } from '#server/process/config.ts';

const DIRECTORY = (): Option =>
  new Option('--dir <directory>', 'the directory of the archive files')
    .env('ARCHIVE_DIR')
    .makeOptionMandatory();

/** `daybook archive …` */
export function archiveCommands(program: Command): void {
  const commands = program.command('archive').description('archived partitions of the log, in files');

  withJson(commands.command('list'))
    .description('list the partitions of the log, and which are archived')
    .action((_options: object, command: Command) =>
      onStore(command, async (connect) =>
        print(command, await withClient(connect, listPartitions), showPartitions),
      ),
    );

  withJson(commands.command('run'))
    .description('archive partitions that are no longer needed now, instead of waiting for the worker')
    .addOption(DIRECTORY())
    .option('--keep <count>', 'number of newest full partitions that stay in the log', '4')
    .option('--drop', 'drop the tables of archived partitions')
    .action((options: { dir: string; keep: string; drop?: boolean }, command: Command) =>
      onStore(command, async (connect) => {
        const result = await archive({
          connect,
          directory: options.dir,
          keep: readCount(options.keep),
          drop: options.drop === true,
        });
        if (result === null)
          throw new StoreError('another process is archiving already; try again when it has finished');
        print(command, result, showResult);
      }),
    );

  withJson(
    commands
      .command('verify')
      .argument('[files...]', 'archive files; all that this log has archived when absent'),
  )
    .description(
      'verify archive files and their order, without a database; without files, all that this log has ' +
        'archived',
    )
    .option(
      '--dir <directory>',
      'without files: the directory of the archive files',
      commands.surroundings.env['ARCHIVE_DIR'],
    )
    .action((files: string[], options: { dir?: string }, command: Command) =>
      verify(files, options.dir, command),
    );

  withJson(commands.command('restore').argument('<file>', 'an archive file'))
    .description('load a file into the log again, for rebuilds, until it is dropped')
    .action((file: string, _options: object, command: Command) =>
      onStore(command, async (connect) =>
        print(
          command,
          { restored: await restorePartition(connect, file) },
          ({ restored }) => `${restored} is in the log again.`,
        ),
      ),
    );

  withJson(commands.command('drop').argument('<partition>', "the partition's number"))
    .description('drop the table of an archived partition; its file stays')
    .addOption(DIRECTORY())
    .action((partition: string, options: { dir: string }, command: Command) =>
      onStore(command, async (connect) =>
        print(
          command,
          {
            dropped: await dropArchived(
              connect,
              readCount(partition.replace(/^log_0*(?=\d)/, '')),
              options.dir,
            ),
          },
          ({ dropped }) => `${dropped} is dropped.`,
        ),
      ),
    );
}

/** Runs a command as the owner role, which alone may detach a partition of the log. */
async function onStore(
  command: Command,
  work: (connect: () => Promise<Client>) => Promise<void>,
): Promise<void> {
  const { store, close } = await borrowStore(readConfig(command.surroundings.env), () => {});
  try {
    await migrate(store);
    await work(() => connectAs(store, 'owner', ARCHIVE_STATEMENT_TIMEOUT_MS));
  } finally {
    await close();
  }
}

async function withClient<T>(
  connect: () => Promise<Client>,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = await connect();
  try {
    return await work(client);
  } finally {
    await closeClient(client);
  }
}

async function verify(
  files: readonly string[],
  directory: string | undefined,
  command: Command,
): Promise<void> {
  const verified: Manifest[] = [];
  const verifyThem = (names: readonly string[]): Promise<void> =>
    verifySeries(names, (_file, manifest) => verified.push(manifest));
  if (files.length > 0) await verifyThem(files);
  else {
    if (directory === undefined)
      throw new StoreError(
        'no files were given. Name them, or the directory of the archive with --dir or ARCHIVE_DIR',
      );
    await onStore(command, (connect) =>
      withClient(connect, async (client) => {
        const recorded = (await listPartitions(client)).flatMap(({ manifest }) => manifest ?? []);
        await verifyThem(recorded.map(({ file }) => path.join(directory, file)));
        await verifyArchivedControl(client);
      }),
    );
  }
  print(command, { verified }, showVerified);
}

function readCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new StoreError(`"${text}" is not a number of partitions`);
  return Number(text);
}

function showPartitions(partitions: readonly PartitionStatus[]): string {
  const where = ({ attachment, restored_at, archived_at }: PartitionStatus): string => {
    if (attachment === 'attached') return restored_at === null ? 'in the log' : 'in the log, restored';
    if (attachment === 'detaching') return 'being detached';
    return attachment === 'detached' ? 'archived, table kept' : archived_at === null ? 'lost' : 'archived';
  };
  const rows = partitions.map((each) => [
    each.name,
    String(each.first_position),
    String(each.last_position),
    where(each),
    each.manifest?.file ?? '',
    String(each.manifest?.bytes ?? ''),
  ]);
  return showTable(['PARTITION', 'FROM', 'TO', 'STATE', 'FILE', 'BYTES'], rows);
}

function showResult({ archived, detached, dropped, waiting }: ArchiveResult): string {
  const line = (what: string, names: readonly string[]): string[] =>
    names.length > 0 ? [`${what}: ${names.join(', ')}`] : [];
  return [
    ...line('archived', archived),
    ...line('detached', detached),
    ...line('dropped', dropped),
    ...(waiting === null ? [] : [waiting]),
  ].join('\n');
}

function showVerified({ verified }: { verified: readonly Manifest[] }): string {
  if (verified.length === 0) return 'Nothing is archived.';
  const rows = verified.map((each) => [
    each.file,
    String(each.first_position),
    String(each.last_position),
    String(each.batch_count),
    each.chain_after,
  ]);
  const table = showTable(['VALID FILE', 'FROM', 'TO', 'BATCHES', 'CHAIN'], rows);
  return `${table}\nEach file continues the one before it.`;
}
