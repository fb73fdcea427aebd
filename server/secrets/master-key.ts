import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ClientBase } from 'pg';
import {
  masterKeysInUse,
  readCredentials,
  rewrapCredential,
  withMasterKeyLock,
} from '#db/secrets/credentials.ts';
import { MASTER_KEY_BYTES, masterKeyId, type MasterKeys, rewrap } from '#db/secrets/envelope.ts';
import { MASTER_KEYS_MAX, readMasterKeys } from '#db/secrets/master-key.ts';
import { ConfigError } from '#server/process/config.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The key that credentials are sealed under, in a file outside the database and its backups. */

const fault = (line: string): ConfigError => new ConfigError(line);

/** @returns null where no master key was made yet. @throws {ConfigError} when the file can't be used. */
export const readKeys = (file: string): MasterKeys | null => readMasterKeys(file, fault);

/**
 * The keys to seal a credential with. The first one makes the master key; not so where the database
 * has credentials already, since they would be lost without notice. The caller holds the
 * master key (`holdMasterKey`).
 * @throws {ConfigError} when the file can't be used, or lacks a key that is needed.
 */
export async function keysToSeal(client: ClientBase, file: string): Promise<MasterKeys> {
  const inUse = await masterKeysInUse(client);
  const keys = readKeys(file) ?? (inUse.size === 0 ? makeFirst(file) : null);
  requireAll(keys, inUse, file);
  return keys;
}

function requireAll(
  keys: MasterKeys | null,
  inUse: ReadonlySet<string>,
  file: string,
): asserts keys is MasterKeys {
  const missing = [...inUse].filter((id) => keys?.all.has(id) !== true);
  if (keys !== null && missing.length === 0) return;
  throw new ConfigError(
    `DAYBOOK_MASTER_KEY_FILE is needed: credentials in this database are sealed under the master key ${missing.join(' and ')}, which ${file} does not hold. Copy it from the host where they were added, or from where you keep it; or remove these credentials and add them again.`,
  );
}

export type Rekeyed = {
  /** The id of the master key that is current now. */
  master_key: string;
  rewrapped: number;
  /** Credentials that don't open: they stay as they are. */
  damaged: string[];
  /**
   * Those that went from the file, since nothing needs them any more, and that stayed because something does.
   */
  dropped: string[];
  kept: string[];
};

/**
 * Wraps all data keys by a new master key, while everything runs. Broken off at any point it leaves
 * credentials that open, and can be done again.
 * @param byHand the file has the new key as its first line already, and is not written to.
 * @throws {DecisionError} when there is no master key yet.
 * @throws {ConfigError} when the file can't be used or written.
 */
export function rekey(client: ClientBase, file: string, byHand: boolean): Promise<Rekeyed> {
  return withMasterKeyLock(client, async () => {
    const before = readKeys(file);
    if (before === null && (await masterKeysInUse(client)).size === 0) {
      throw new DecisionError(
        'not_found',
        `There is no master key yet: it is made in ${file} with the first credential.`,
      );
    }
    requireAll(before, await masterKeysInUse(client), file);
    const keys = byHand ? before : withNew(before);
    if (!byHand) writeKeys(file, [...keys.all.values()]);
    const { rewrapped, damaged } = await rewrapAll(client, keys);
    const needed = new Set([keys.current, ...(await masterKeysInUse(client))]);
    const kept = [...keys.all].filter(([id]) => byHand || needed.has(id));
    if (!byHand)
      writeKeys(
        file,
        kept.map(([, key]) => key),
      );
    const dropped = [...keys.all.keys()].filter((id) => !kept.some(([each]) => each === id));
    return {
      master_key: keys.current,
      rewrapped,
      damaged,
      dropped,
      kept: kept.map(([id]) => id).filter((id) => id !== keys.current),
    };
  });
}

async function rewrapAll(
  client: ClientBase,
  keys: MasterKeys,
): Promise<Pick<Rekeyed, 'rewrapped' | 'damaged'>> {
  let rewrapped = 0;
  const damaged: string[] = [];
  for (const credential of await readCredentials(client)) {
    if (credential.master_key === keys.current) continue;
    const wrapped = attempt(() => rewrap(keys, credential, credential));
    if (wrapped === null) damaged.push(credential.id);
    else {
      await rewrapCredential(client, credential.id, wrapped);
      rewrapped++;
    }
  }
  return { rewrapped, damaged };
}

/** What a damaged row can't give. */
function attempt<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}

function withNew({ all }: MasterKeys): MasterKeys {
  if (all.size === MASTER_KEYS_MAX)
    throw new ConfigError(
      "DAYBOOK_MASTER_KEY_FILE is not usable: it is full of keys that are still needed. Remove the credentials that don't open.",
    );
  const key = randomBytes(MASTER_KEY_BYTES);
  const current = masterKeyId(key);
  return { current, all: new Map([[current, key], ...all]) };
}

function makeFirst(file: string): MasterKeys {
  const keys = withNew({ current: '', all: new Map() });
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  writeKeys(file, [...keys.all.values()]);
  return keys;
}

/**
 * Replaces the file atomically, so that a concurrent reader sees the old file or the new one. The keys
 * are on the disk before anything is sealed by them.
 */
function writeKeys(file: string, keys: readonly Buffer[]): void {
  const beside = `${file}.new`;
  try {
    rmSync(beside, { force: true });
    writeFileSync(beside, keys.map((key) => `${key.toString('hex')}\n`).join(''), {
      mode: 0o600,
      flag: 'wx',
      flush: true,
    });
    renameSync(beside, file);
    if (process.platform !== 'win32') syncDirectory(path.dirname(file));
  } catch (error) {
    throw new ConfigError(
      `DAYBOOK_MASTER_KEY_FILE is not usable: ${file} can't be written (${(error as NodeJS.ErrnoException).code}). Where a file is handed over read-only, write a new key as its first line yourself, and run: daybook rekey --by-hand`,
    );
  }
}

function syncDirectory(directory: string): void {
  const handle = openSync(directory, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
