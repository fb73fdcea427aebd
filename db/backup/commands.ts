import { z } from 'zod';
import { takeBackup } from '#db/backup/backup.ts';
import { connectBatch } from '#db/backup/connect.ts';
import { checkProjections, rebuildProjections } from '#db/backup/projections.ts';
import { type RestoreGap, findRestoreGap } from '#db/backup/restore-gap.ts';
import { fileOf, type Manifest } from '#db/backup/manifest.ts';
import { restoreBackup, type Restored } from '#db/backup/restore.ts';
import { verifyBackup } from '#db/backup/verify.ts';
import type { Damage } from '#db/log/chain.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { closeClient, type Store, StoreError } from '#db/postgres/connect.ts';
import { masterKeysInUse } from '#db/secrets/credentials.ts';
import { PostgresUrl } from '#db/configuration/values.ts';
import { readEnvironment } from '#db/environment.ts';
import { masterKeyFile, readMasterKeys } from '#db/secrets/master-key.ts';
import { pepperCheck, pepperFile, readPepper } from '#db/secrets/pepper.ts';
import { isEqual } from '#db/projections/compare.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { signingKeyFile } from '#db/tlog/signing-key.ts';

/** The environment variables of backups. An empty value counts as unset. */
const Environment = z.object({
  DAYBOOK_DATA: z.string().default('./data'),
  DATABASE_URL: PostgresUrl.optional(),
  DAYBOOK_PEPPER_FILE: z.string().optional(),
  DAYBOOK_MASTER_KEY_FILE: z.string().optional(),
  DAYBOOK_SIGNING_KEY_FILE: z.string().optional(),
  PUBLISH_DIR: z.string().optional(),
});
type Config = z.infer<typeof Environment>;

/** Adds `daybook backup …` and `daybook restore`. */
export function backupCommands(program: Command): void {
  const backup = withJson(program.command('backup'))
    .description(
      'take an online backup of the database into a new directory, and verify it; exits with 1 if the ' +
        'log is damaged',
    )
    .option('--to <directory>', 'target directory, which must not exist yet')
    .action(async ({ to }: { to?: string }, command: Command) => {
      if (to === undefined)
        throw new StoreError(
          'no target. Name a directory that does not exist yet: daybook backup --to DIRECTORY',
        );
      await onStore(command, async (store, config) => {
        const manifest = await interruptible((signal) => takeBackup({ store, directory: to, signal }));
        print(command, manifest, (taken) => `${showManifest(taken, taken.damage)}\n${showSecrets(config)}`);
        if (manifest.damage !== null) throw new FoundFault();
      });
    });

  withJson(backup.command('verify').argument('<directory>', 'the directory of the backup'))
    .description(
      'verify a backup without a database, file by file and event by event; exits with 1 if it is damaged',
    )
    .action(async (directory: string, _options: object, command: Command) => {
      const { manifest, damage } = await verifyBackup(directory);
      print(command, { ...manifest, damage }, (verified) => showManifest(verified, damage));
      if (damage !== null) throw new FoundFault();
    });

  withJson(program.command('restore'))
    .description('restore a backup into an empty database, verify it, and rebuild the projections')
    .requiredOption('--from <directory>', 'directory of the backup')
    .option('--even-damaged', 'restore even if the log does not match its hash chain')
    .option('--no-check', 'skip the comparison of the projections with a replay of the log')
    .action((options: { from: string; evenDamaged?: boolean; check: boolean }, command: Command) =>
      onStore(command, async (store, config) => {
        const result = await restore(store, config, options);
        print(command, result, (restored) => showRestored(restored, config));
        if (result.differing.length > 0) throw new FoundFault();
      }),
    );
}

/** The outcome of a restore; `differing` are projections that differ from a replay of the log. */
type Result = Omit<Restored, 'manifest'> & {
  head: Manifest['head'];
  taken_at: string;
  projections: 'rebuilt' | 'restored';
  parked: number;
  differing: string[];
  restore_gap: RestoreGap | null;
  pepper: PepperState;
  master_key: MasterKeyState;
};

async function restore(
  store: Store,
  config: Config,
  options: { from: string; evenDamaged?: boolean; check: boolean },
): Promise<Result> {
  const { manifest, ...finalized } = await restoreBackup({
    store,
    directory: options.from,
    evenDamaged: options.evenDamaged === true,
  });
  const areRestored = fileOf(manifest, 'projection.request') !== undefined;
  const parked = areRestored ? 0 : await rebuildProjections(store);
  // Restored projections can't be compared, since a part of the log is archived.
  const compared = areRestored || !options.check ? [] : await checkProjections(store);
  return {
    head: manifest.head,
    taken_at: manifest.taken_at,
    ...finalized,
    projections: areRestored ? 'restored' : 'rebuilt',
    parked,
    differing: compared.filter((each) => !isEqual(each)).map(({ projection }) => projection),
    restore_gap: await findRestoreGap(store, publishDirectory(config), manifest),
    pepper: await readPepperState(store, config),
    master_key: await readMasterKeyState(store, config),
  };
}

/** Passes a signal that is aborted by those that would end the process, so that work can clean up first. */
async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort();
  for (const signal of INTERRUPTS) process.once(signal, interrupt);
  try {
    return await work(interrupted.signal);
  } finally {
    for (const signal of INTERRUPTS) process.off(signal, interrupt);
  }
}

const INTERRUPTS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

async function onStore(
  command: Command,
  work: (store: Store, config: Config) => Promise<void>,
): Promise<void> {
  const config = readConfig(command.surroundings.env);
  const { store, close } = await borrowStore(config, () => {});
  try {
    await work(store, config);
  } finally {
    await close();
  }
}

function readConfig(environment: NodeJS.ProcessEnv): Config {
  const parsed = Environment.safeParse(
    readEnvironment(environment, ['DATABASE_URL'], (line) => new StoreError(line)),
  );
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new StoreError(`${String(issue?.path[0])} is invalid: ${issue?.message}.`);
}

/** Whether the local pepper matches the keys in the database. */
type PepperState = 'matches' | 'missing' | 'mismatch' | 'unreadable' | 'not_required';

async function readPepperState(store: Store, config: Config): Promise<PepperState> {
  const client = await connectBatch(store, 'relay');
  try {
    const install = await rowOf(client, db.selectFrom('daybook.install').select('pepper_check'));
    const expected = install?.pepper_check ?? null;
    if (expected === null) return 'not_required';
    const pepper = readPepper(pepperFile(config), (line) => new StoreError(line));
    if (pepper === null) return 'missing';
    return pepperCheck(pepper) === expected ? 'matches' : 'mismatch';
  } catch (error) {
    // The restore itself succeeded; a server reports the problem at startup.
    if (error instanceof StoreError) return 'unreadable';
    throw error;
  } finally {
    await closeClient(client);
  }
}

/** Whether the local master keys can decrypt the credentials in the database. */
type MasterKeyState = 'matches' | 'missing' | 'mismatch' | 'unreadable' | 'not_required';

async function readMasterKeyState(store: Store, config: Config): Promise<MasterKeyState> {
  const client = await connectBatch(store, 'owner');
  try {
    const inUse = await masterKeysInUse(client);
    if (inUse.size === 0) return 'not_required';
    const keys = readMasterKeys(masterKeyFile(config), (line) => new StoreError(line));
    if (keys === null) return 'missing';
    return [...inUse].every((id) => keys.all.has(id)) ? 'matches' : 'mismatch';
  } catch (error) {
    if (error instanceof StoreError) return 'unreadable';
    throw error;
  } finally {
    await closeClient(client);
  }
}

function showManifest({ head, taken_at, files, finished_at }: Manifest, damage: Damage | null): string {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  const end =
    head === null
      ? 'an empty log'
      : `the log up to position ${head.position} (${head.at}), chain hash ${head.chain}`;
  const lines = [
    `${end}; ${rows} rows in ${files.length} files, ${bytes} bytes; taken ${taken_at}, ` +
      `finished ${finished_at}`,
  ];
  if (damage === null)
    lines.push('Verified: every file is intact, and every event of the log matches its hash chain.');
  else
    lines.push(
      `DAMAGED at position ${damage.position}: ${damage.problem}. The events before it are valid. The ` +
        'backup is complete; restoring it requires --even-damaged.',
    );
  return lines.join('\n');
}

function showSecrets(config: Config): string {
  return (
    `Not included; back these up separately: ${pepperFile(config)} (without it no key works), ` +
    `${masterKeyFile(config)} (without it no upstream credential can be decrypted), ` +
    `${signingKeyFile(config)} (signs checkpoints), and your configuration.`
  );
}

function showRestored(result: Result, config: Config): string {
  const {
    head,
    taken_at,
    abandoned,
    undelivered,
    paused_sinks,
    projections,
    parked,
    differing,
    restore_gap,
    pepper,
    master_key,
  } = result;
  const end = head === null ? 'an empty log' : `the log up to position ${head.position} (${head.at})`;
  return [
    `Restored: ${end}, taken ${taken_at}.`,
    `${abandoned} requests in progress were ended as abandoned and charged their reservation. ` +
      `${undelivered} pending alert deliveries were canceled.`,
    ...(paused_sinks === 0
      ? []
      : [
          `${paused_sinks} sinks of spend events are paused, since the original may still deliver. Once it ` +
            'is stopped: npm run -s daybook -- sink resume NAME',
        ]),
    projections === 'restored'
      ? 'The projections were restored from the backup, since a part of the log is archived.'
      : `The projections were rebuilt from the log${parked > 0 ? `; ${parked} events were parked` : ''}.`,
    ...differing.map(
      (name) => `DIFFERENT: ${name} differs from a replay of the log; run daybook projections check ${name}`,
    ),
    'All sessions ended, and links that were sent are invalid. Changes after the backup are lost: a ' +
      'key revoked since is active again.',
    ...showPepper(pepper, pepperFile(config)),
    ...showMasterKey(master_key, masterKeyFile(config)),
    ...showRestoreGap(restore_gap),
  ].join('\n');
}

function showPepper(state: PepperState, file: string): string[] {
  if (state === 'missing')
    return [`The pepper is missing: copy it to ${file} from your own backup, or no key works.`];
  if (state === 'unreadable') return [`The pepper in ${file} is invalid: run daybook doctor.`];
  if (state === 'mismatch')
    return [
      `The pepper in ${file} does NOT MATCH the keys in the database: replace it by the original, or ` +
        'no key works.',
    ];
  return [];
}

function showMasterKey(state: MasterKeyState, file: string): string[] {
  if (state === 'missing')
    return [
      `The master key is missing: copy it to ${file} from your own backup, or no upstream credential ` +
        'can be decrypted.',
    ];
  if (state === 'unreadable') return [`The master key in ${file} is invalid: run daybook doctor.`];
  if (state === 'mismatch')
    return [
      `${file} lacks a master key that credentials are encrypted with: add it as another line, or they ` +
        `can't be decrypted.`,
    ];
  return [];
}

function showRestoreGap(gap: RestoreGap | null): string[] {
  if (gap === null) return [];
  const { problem, positions, between } = gap;
  const missing =
    positions === null
      ? []
      : [
          `LOST: ${positions.last - positions.first + 1} published events, ` +
            `positions ${positions.first} to ${positions.last}`,
        ];
  const time = positions === null || between === null ? [] : [`, between ${between.from} and ${between.to}`];
  return [
    ...(missing.length > 0 ? [`${[...missing, ...time].join('')}, and any later ones.`] : []),
    `${problem}.`,
  ];
}
