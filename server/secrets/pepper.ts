import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { db, onlyRowOf, rowOf } from '#db/schema/query.ts';
import { pepperCheck, pepperFile, readPepper } from '#db/secrets/pepper.ts';
import { type Config, ConfigError } from '#server/process/config.ts';

const PEPPER_BYTES = 32;

/**
 * The secret that key digests are computed with. It is in a file outside the database, so that an attacker
 * who can write to the database still can't mint a key. The database remembers a check value: with another
 * pepper every key would look wrong, and a fault of ours must never be a 401.
 * @throws {ConfigError} when the file is missing, readable by others, or not the right one.
 */
export async function loadPepper(
  client: ClientBase,
  config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_PEPPER_FILE'>,
): Promise<Buffer> {
  const file = pepperFile(config);
  const install = await rowOf(client, db.selectFrom('daybook.install').select('pepper_check'));
  const expected = install?.pepper_check ?? null;
  const pepper = readPepper(file, fault) ?? (expected === null ? createPepper(file) : null);
  if (pepper === null) {
    throw new ConfigError(
      [
        'DAYBOOK_PEPPER_FILE is needed: the keys in this database were created with a pepper,',
        `which is not in ${file}. Copy it from the host that first used the database, or from your backup.`,
      ].join(' '),
    );
  }
  const check = pepperCheck(pepper);
  const claim = sql<string>`daybook.claim_pepper(${check})`.as('claimed');
  if ((await onlyRowOf(client, db.selectNoFrom(claim))).claimed !== check) {
    throw new ConfigError(
      `DAYBOOK_PEPPER_FILE is not usable: ${file} is not the pepper of this database's keys.`,
    );
  }
  return pepper;
}

const fault = (line: string): ConfigError => new ConfigError(line);

function createPepper(file: string): Buffer {
  const pepper = randomBytes(PEPPER_BYTES);
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  // `wx`: of two processes that start at once, one writes and the other reads.
  try {
    writeFileSync(file, `${pepper.toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
    return pepper;
  } catch (error) {
    const other = (error as NodeJS.ErrnoException).code === 'EEXIST' ? readPepper(file, fault) : null;
    if (other) return other;
    throw error;
  }
}
