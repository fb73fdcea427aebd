import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ClientBase } from 'pg';
import { rewrapAccountKey } from '#db/attribution/keys.ts';
import { readAllAccountKeys, rewrapStoredKey } from '#db/attribution/store.ts';
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

/**
 * The master key that encrypts credentials and keys of attribution, in a file outside the database and its
 * backups.
 */

const fault = (line: string): ConfigError => new ConfigError(line);

/** @returns null where no master key was made yet. @throws {ConfigError} when the file can't be used. */
export const readKeys = (file: string): MasterKeys | null => readMasterKeys(file, fault);

/**
 * The keys to encrypt a secret with. The first secret creates the master key, but not if the database has
 * secrets already: they would be lost without notice. The caller must hold the lock
 * (`lockMasterKey`).
 * @throws {ConfigError} when the file can't be used, or lacks a key in use.
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
    'DAYBOOK_MASTER_KEY_FILE is needed: secrets in this database are encrypted with the master key ' +
      `${missing.join(' and ')}, which ${file} does not contain. Copy the key from the host where they ` +
      'were made, or from your backup. Without it, remove the credentials and destroy the keys of ' +
      'attribution.',
  );
}

export type Rekeyed = {
  /** The id of the master key that is current now. */
  master_key: string;
  rewrapped: number;
  /** Keys of attribution that were encrypted again. */
  attribution_keys: number;
  /** Credentials, and accounts whose key of attribution, can't be decrypted; they are unchanged. */
  damaged: string[];
  damaged_attribution: string[];
  /** Old keys that were removed from the file, and old keys that were kept because they are still in use. */
  dropped: string[];
  kept: string[];
};

/**
 * Wraps all data keys with a new master key, without downtime. If interrupted, all credentials can still be
 * decrypted and the command can be repeated.
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
        `There is no master key yet: it is created in ${file} with the first credential.`,
      );
    }
    requireAll(before, await masterKeysInUse(client), file);
    const keys = byHand ? before : withNew(before);
    if (!byHand) writeKeys(file, [...keys.all.values()]);
    const { rewrapped, damaged } = await rewrapAll(client, keys);
    const attribution = await rewrapAccountKeys(client, keys);
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
      attribution_keys: attribution.rewrapped,
      damaged,
      damaged_attribution: attribution.damaged,
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

async function rewrapAccountKeys(
  client: ClientBase,
  keys: MasterKeys,
): Promise<Pick<Rekeyed, 'rewrapped' | 'damaged'>> {
  let rewrapped = 0;
  const damaged: string[] = [];
  for (const sealed of await readAllAccountKeys(client)) {
    if (sealed.master_key === keys.current) continue;
    const wrapped = attempt(() => rewrapAccountKey(keys, sealed));
    if (wrapped === null) damaged.push(sealed.account);
    else {
      await rewrapStoredKey(client, wrapped);
      rewrapped++;
    }
  }
  return { rewrapped, damaged };
}

/** The result of `work`; null if a damaged row makes it throw. */
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
      [
        'DAYBOOK_MASTER_KEY_FILE is not usable: it is full of keys that are still in use.',
        "Remove the credentials that can't be decrypted.",
      ].join(' '),
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
      [
        `DAYBOOK_MASTER_KEY_FILE is not usable: ${file} can't be written`,
        `(${(error as NodeJS.ErrnoException).code}). If the file is mounted read-only, add the new key`,
        'as its first line where it comes from, and run: daybook rekey --by-hand',
      ].join(' '),
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
