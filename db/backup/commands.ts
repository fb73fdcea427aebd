import { z } from 'zod';
import { takeBackup } from '#db/backup/backup.ts';
import { checkFigures, makeFigures } from '#db/backup/figures.ts';
import { type Loss, readLoss } from '#db/backup/restore-gap.ts';
import { fileOf, type Manifest } from '#db/backup/manifest.ts';
import { BACKUP_STATEMENT_TIMEOUT_MS, restoreBackup, type Restored } from '#db/backup/restore.ts';
import { verifyBackup } from '#db/backup/verify.ts';
import type { Damage } from '#db/log/chain.ts';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { closeClient, connectAs, patient, type Store, StoreError } from '#db/postgres/connect.ts';
import { masterKeysInUse } from '#db/secrets/credentials.ts';
import { readEnvironment } from '#db/environment.ts';
import { masterKeyFile, readMasterKeys } from '#db/secrets/master-key.ts';
import { pepperCheck, pepperFile, readPepper } from '#db/secrets/pepper.ts';
import { isEqual } from '#db/projections/compare.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { publishDirectory } from '#db/tlog/published.ts';
import { signingKeyFile } from '#db/tlog/signing-key.ts';

/** What backups need to know of the environment. Unset and empty are the same. */
const Environment = z.object({
  DAYBOOK_DATA: z.string().default('./data'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must start with postgres://')
    .optional(),
  DAYBOOK_PEPPER_FILE: z.string().optional(),
  DAYBOOK_MASTER_KEY_FILE: z.string().optional(),
  DAYBOOK_SIGNING_KEY_FILE: z.string().optional(),
  PUBLISH_DIR: z.string().optional(),
});
type Config = z.infer<typeof Environment>;

/** `daybook backup …` and `daybook restore` */
export function backupCommands(program: Command): void {
  const backup = withJson(program.command('backup'))
    .description(
      'write all that the database alone holds to a new directory, while everything runs, and check it; exits with 1 where the log is damaged',
    )
    .option('--to <directory>', 'the directory, which must not be there yet')
    .action(async ({ to }: { to?: string }, command: Command) => {
      if (to === undefined)
        throw new StoreError(
          'where to? Name a directory that is not there yet: daybook backup --to DIRECTORY',
        );
      await onStore(command, async (store, config) => {
        const manifest = await takeBackup({
          connect: () => connectAs(patient(store), 'owner', BACKUP_STATEMENT_TIMEOUT_MS),
          directory: to,
        });
        print(command, manifest, (taken) => `${showManifest(taken, taken.damage)}\n${showSecrets(config)}`);
        if (manifest.damage !== null) throw new FoundFault();
      });
    });

  withJson(backup.command('verify <directory>'))
    .description(
      'check a backup, file by file and event by event, with no database at hand; exits with 1 where it is not sound',
    )
    .action(async (directory: string, _options: object, command: Command) => {
      const { manifest, damage } = await verifyBackup(directory);
      print(command, { ...manifest, damage }, (verified) => showManifest(verified, damage));
      if (damage !== null) throw new FoundFault();
    });

  withJson(program.command('restore'))
    .description('load a backup into an empty database, check it, and make the figures anew')
    .requiredOption('--from <directory>', 'the backup')
    .option('--even-damaged', 'also where the log in it does not agree with its chain')
    .option('--no-check', 'leave out comparing the figures with a replay of the log')
    .action((options: { from: string; evenDamaged?: boolean; check: boolean }, command: Command) =>
      onStore(command, async (store, config) => {
        const result = await restore(store, config, options);
        print(command, result, (restored) => showRestored(restored, config));
        if (result.differing.length > 0) throw new FoundFault();
      }),
    );
}

/** What a restore has come to; `differing` are figures that are not as a replay of the log. */
type Result = Omit<Restored, 'manifest'> & {
  head: Manifest['head'];
  taken_at: string;
  figures: 'made anew' | 'loaded';
  parked: number;
  differing: string[];
  loss: Loss | null;
  pepper: PepperState;
  master_key: MasterKeyState;
};

async function restore(
  store: Store,
  config: Config,
  options: { from: string; evenDamaged?: boolean; check: boolean },
): Promise<Result> {
  const { manifest, ...takenUp } = await restoreBackup({
    store,
    directory: options.from,
    evenDamaged: options.evenDamaged === true,
  });
  const areLoaded = fileOf(manifest, 'projection.request') !== undefined;
  const parked = areLoaded ? 0 : await makeFigures(store);
  // Those that were loaded can't be compared: a part of the log that they were made from is in its archive.
  const compared = areLoaded || !options.check ? [] : await checkFigures(store);
  return {
    head: manifest.head,
    taken_at: manifest.taken_at,
    ...takenUp,
    figures: areLoaded ? 'loaded' : 'made anew',
    parked,
    differing: compared.filter((each) => !isEqual(each)).map(({ projection }) => projection),
    loss: await readLoss(store, publishDirectory(config), manifest),
    pepper: await readPepperState(store, config),
    master_key: await readMasterKeyState(store, config),
  };
}

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
  throw new StoreError(`${String(issue?.path[0])} is not usable: ${issue?.message}.`);
}

/** Whether the keys in the database will work with the pepper that is here. */
type PepperState = 'fits' | 'missing' | 'another' | 'unreadable' | 'none needed';

async function readPepperState(store: Store, config: Config): Promise<PepperState> {
  const client = await connectAs(patient(store), 'auditor');
  try {
    const { rows } = await client.query<{ pepper_check: string | null }>(
      'select pepper_check from daybook.install',
    );
    const expected = rows[0]?.pepper_check ?? null;
    if (expected === null) return 'none needed';
    const pepper = readPepper(pepperFile(config), (line) => new StoreError(line));
    if (pepper === null) return 'missing';
    return pepperCheck(pepper) === expected ? 'fits' : 'another';
  } catch (error) {
    // All is restored: a server that starts says what is wrong with the file.
    if (error instanceof StoreError) return 'unreadable';
    throw error;
  } finally {
    await closeClient(client);
  }
}

/** Whether the credentials in the database will open with the master keys that are here. */
type MasterKeyState = 'fits' | 'missing' | 'another' | 'unreadable' | 'none needed';

async function readMasterKeyState(store: Store, config: Config): Promise<MasterKeyState> {
  const client = await connectAs(patient(store), 'owner');
  try {
    const inUse = await masterKeysInUse(client);
    if (inUse.size === 0) return 'none needed';
    const keys = readMasterKeys(masterKeyFile(config), (line) => new StoreError(line));
    if (keys === null) return 'missing';
    return [...inUse].every((id) => keys.all.has(id)) ? 'fits' : 'another';
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
      : `the log up to position ${head.position}, of ${head.at}, chain ${head.chain}`;
  const lines = [
    `${end}; ${rows} rows in ${files.length} files, ${bytes} bytes; as of ${taken_at}, finished ${finished_at}`,
  ];
  if (damage === null)
    lines.push('Sound: every file is what was written, and every event of the log agrees with its chain.');
  else
    lines.push(
      `DAMAGED at position ${damage.position}: ${damage.problem}. What is before it agrees with its chain. Everything was written as it is; to restore it takes --even-damaged.`,
    );
  return lines.join('\n');
}

function showSecrets(config: Config): string {
  return `Not in it, to be kept apart from it: ${pepperFile(config)} (without it no key works), ${masterKeyFile(config)} (without it no credential of an upstream opens), ${signingKeyFile(config)} (signs checkpoints), and your settings.`;
}

function showRestored(result: Result, config: Config): string {
  const { head, taken_at, abandoned, undelivered, figures, parked, differing, loss, pepper, master_key } =
    result;
  const end = head === null ? 'an empty log' : `the log up to position ${head.position}, of ${head.at}`;
  return [
    `Restored: ${end}, as of ${taken_at}.`,
    `${abandoned} calls that ran then are ended as abandoned and charged with all that they held. ${undelivered} alerts that were on their way are not sent.`,
    figures === 'loaded'
      ? 'The figures were loaded with it, since a part of the log is in its archive.'
      : `The figures were made anew from the log${parked > 0 ? `; ${parked} events could not be taken in` : ''}.`,
    ...differing.map(
      (name) => `DIFFERING: ${name} is not as the log says; see daybook projections check ${name}`,
    ),
    'Nobody is signed in, and links that were sent are void. What happened after the backup is forgotten: a key that was revoked since is good again.',
    ...showPepper(pepper, pepperFile(config)),
    ...showMasterKey(master_key, masterKeyFile(config)),
    ...showLoss(loss),
  ].join('\n');
}

function showPepper(state: PepperState, file: string): string[] {
  if (state === 'missing')
    return [`The pepper is missing: copy it to ${file} from where you keep it, or no key works.`];
  if (state === 'unreadable') return [`The pepper in ${file} can't be used: see daybook doctor.`];
  if (state === 'another')
    return [
      `The pepper in ${file} is ANOTHER than the one that the keys were made with: put that one there, or no key works.`,
    ];
  return [];
}

function showMasterKey(state: MasterKeyState, file: string): string[] {
  if (state === 'missing')
    return [
      `The master key is missing: copy it to ${file} from where you keep it, or no credential of an upstream opens.`,
    ];
  if (state === 'unreadable') return [`The master key in ${file} can't be used: see daybook doctor.`];
  if (state === 'another')
    return [
      `${file} lacks a master key that credentials are sealed under: add it as one more line, or these don't open.`,
    ];
  return [];
}

function showLoss(loss: Loss | null): string[] {
  if (loss === null) return [];
  const { problem, positions, between } = loss;
  const missing =
    positions === null
      ? []
      : [
          `LOST: ${positions.last - positions.first + 1} events that were published, from position ${positions.first} to ${positions.last}`,
        ];
  const time = positions === null || between === null ? [] : [`, between ${between.from} and ${between.to}`];
  return [
    ...(missing.length > 0 ? [`${[...missing, ...time].join('')}, and what came behind them.`] : []),
    `${problem}.`,
  ];
}
