import { randomBytes } from 'node:crypto';
import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connectAs } from '#db/postgres/connect.ts';
import { insertCredential, readCredentials, type SealedCredential } from '#db/secrets/credentials.ts';
import {
  matchesSecret,
  masterKeyId,
  type MasterKeys,
  openSecret,
  rewrap,
  sealSecret,
  UnknownMasterKeyError,
} from '#db/secrets/envelope.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { keysToSeal, readKeys, rekey } from '#server/secrets/master-key.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/** What upstreams ask for: sealed in the database, under a key that is not there. */

const SECRET = 'sk-canary-credential-7f3a9c51be02';
const one = { id: 'Cred0001', upstream: 'one' };
const other = { id: 'Cred0002', upstream: 'two' };

function keyring(count = 1): MasterKeys {
  const keys = Array.from({ length: count }, () => randomBytes(32));
  return {
    current: masterKeyId(keys[0] as Buffer),
    all: new Map(keys.map((key) => [masterKeyId(key), key])),
  };
}

describe('an envelope', () => {
  const keys = keyring();

  test('opens for its credential, and compares a secret without opening it', () => {
    const envelope = sealSecret(keys, one, SECRET);
    expect(openSecret(keys, one, envelope)).toBe(SECRET);
    expect(matchesSecret(keys, one, envelope, SECRET)).toBe(true);
    expect(matchesSecret(keys, one, envelope, `${SECRET}x`)).toBe(false);
  });

  test('reveals neither the secret nor the master key, nor that two secrets are equal', () => {
    const [first, second] = [sealSecret(keys, one, SECRET), sealSecret(keys, one, SECRET)];
    const shown = Buffer.concat([
      first.sealed_secret,
      first.wrapped_key,
      first.fingerprint,
      Buffer.from(first.master_key, 'hex'),
    ]);
    expect(shown.includes(SECRET)).toBe(false);
    expect(shown.includes(keys.all.get(keys.current) as Buffer)).toBe(false);
    for (const part of ['sealed_secret', 'wrapped_key', 'fingerprint'] as const)
      expect(first[part].equals(second[part]), part).toBe(false);
  });

  test('does not open for another credential, in another row, or with a flipped bit', () => {
    const envelope = sealSecret(keys, one, SECRET);
    expect(() => openSecret(keys, { ...one, id: other.id }, envelope)).toThrow();
    expect(() => openSecret(keys, { ...one, upstream: other.upstream }, envelope)).toThrow();
    expect(() =>
      openSecret(keys, one, { ...envelope, sealed_secret: sealSecret(keys, one, SECRET).sealed_secret }),
    ).toThrow();
    for (const part of ['sealed_secret', 'wrapped_key'] as const) {
      for (let at = 0; at < envelope[part].length; at += 7) {
        const changed = Buffer.from(envelope[part]);
        changed[at] = (changed[at] as number) ^ 1;
        expect(() => openSecret(keys, one, { ...envelope, [part]: changed })).toThrow();
      }
    }
  });

  test('does not open under another master key, and says which one it needs', () => {
    const envelope = sealSecret(keys, one, SECRET);
    expect(() => openSecret(keyring(), one, envelope)).toThrow(new UnknownMasterKeyError(keys.current));
    const disguised = { current: '', all: new Map([[keys.current, randomBytes(32)]]) };
    expect(() => openSecret(disguised, one, envelope)).toThrow();
  });

  test('is rewrapped without changing its secret, and opens only under the new master key', () => {
    const envelope = sealSecret(keys, one, SECRET);
    const next = keyring();
    const both = { current: next.current, all: new Map([...next.all, ...keys.all]) };
    const renewed = { ...envelope, ...rewrap(both, one, envelope) };
    expect(renewed.sealed_secret).toBe(envelope.sealed_secret);
    expect(openSecret(next, one, renewed)).toBe(SECRET);
    expect(matchesSecret(next, one, renewed, SECRET)).toBe(true);
    expect(() => openSecret(keys, one, renewed)).toThrow(UnknownMasterKeyError);
  });
});

describe('the file of the master key', () => {
  let directory: string;
  let database: TestDatabase;
  let client: Awaited<ReturnType<typeof connectAs>>;
  let file: string;
  let files = 0;
  beforeAll(async () => {
    directory = await makeTestDirectory();
    database = await createDatabase();
    client = await connectAs(database, 'relay');
  });
  beforeEach(async () => {
    file = path.join(directory, `master-key-${++files}`);
    await client.query('delete from daybook.credential');
  });
  afterAll(async () => {
    await client?.end();
    await database?.[Symbol.asyncDispose]();
    await removeTestDirectory(directory);
  });

  const add = async (owner: typeof one, secret = SECRET): Promise<void> =>
    insertCredential(client, { ...owner, ...sealSecret(await keysToSeal(client, file), owner, secret) });
  const rows = (): Promise<SealedCredential[]> => readCredentials(client);
  const opened = async (): Promise<string[]> =>
    (await rows()).map((row) => openSecret(readKeys(file) as MasterKeys, row, row));
  const lines = async (): Promise<string[]> => (await readFile(file, 'utf8')).trim().split('\n');

  test('is beside the data directory, not in it', () => {
    expect(masterKeyFile({ DAYBOOK_DATA: '/srv/data/' })).toBe('/srv/data.master-key');
    expect(masterKeyFile({ DAYBOOK_DATA: '/srv/data', DAYBOOK_MASTER_KEY_FILE: '/run/secrets/master' })).toBe(
      '/run/secrets/master',
    );
  });

  test('is created on first use, readable by its owner only, and stays the same', async () => {
    expect(readKeys(file)).toBeNull();
    await add(one);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const before = await lines();
    await add(other);
    expect(await lines()).toEqual(before);
    expect(await opened()).toEqual([SECRET, SECRET]);
  });

  test('is not created again if credentials are sealed under a missing key', async () => {
    await add(one);
    const elsewhere = path.join(directory, 'elsewhere');
    const [{ master_key } = { master_key: '' }] = await rows();
    await expect(keysToSeal(client, elsewhere)).rejects.toThrow(master_key);
    await writeFile(elsewhere, `${'a'.repeat(64)}\n`, { mode: 0o600 });
    await expect(keysToSeal(client, elsewhere)).rejects.toThrow(/DAYBOOK_MASTER_KEY_FILE is needed/);
  });

  test.each([
    ['empty', '\n', 0o600, 'is empty'],
    ['for all to read', `${'a'.repeat(64)}\n`, 0o644, 'chmod 600'],
    ['for the group to read', `${'a'.repeat(64)}\n`, 0o640, 'chmod 600'],
    ['too short', `${'a'.repeat(63)}\n`, 0o600, '64 hexadecimal'],
    ['invalid in its second line', `${'a'.repeat(64)}\nnot-a-key-canary\n`, 0o600, '64 hexadecimal'],
    ['a list without end', `${'a'.repeat(64)}\n`.repeat(17), 0o600, 'more than 16'],
  ])('is refused when it is %s, without being repeated', async (_what, text, mode, said) => {
    await writeFile(file, text);
    await chmod(file, mode);
    expect(() => readKeys(file)).toThrow(said);
    expect(() => readKeys(file)).not.toThrow(/aaaa|canary/);
  });

  test('is rotated while every credential stays readable, and loses the old key', async () => {
    await add(one);
    await add(other, `${SECRET}-2`);
    const before = readKeys(file) as MasterKeys;
    const sealed = await rows();
    const { master_key, rewrapped, dropped, kept } = await rekey(client, file, false);
    expect({ rewrapped, dropped, kept }).toEqual({ rewrapped: 2, dropped: [before.current], kept: [] });
    expect(readKeys(file)?.current).toBe(master_key);
    expect([...(readKeys(file)?.all.keys() ?? [])]).toEqual([master_key]);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await opened()).toEqual([SECRET, `${SECRET}-2`]);
    expect((await rows()).map(({ sealed_secret }) => sealed_secret)).toEqual(
      sealed.map(({ sealed_secret }) => sealed_secret),
    );
    expect(() => sealed.map((row) => openSecret(readKeys(file) as MasterKeys, row, row))).toThrow(
      UnknownMasterKeyError,
    );
  });

  test('keeps the key that a damaged credential needs, and names that one', async () => {
    await add(one);
    await add(other);
    const before = readKeys(file) as MasterKeys;
    const superuser = await database.superuser();
    await superuser.query(`update daybook.credential set wrapped_key = sealed_secret where id = 'Cred0002'`);
    await superuser.end();
    const done = await rekey(client, file, false);
    expect(done).toMatchObject({ rewrapped: 1, damaged: ['Cred0002'], dropped: [], kept: [before.current] });
    expect([...(readKeys(file)?.all.keys() ?? [])]).toEqual([done.master_key, before.current]);
  });

  test('is completed by another rekey after an interrupted one', async () => {
    await add(one);
    const old = await lines();
    await writeFile(file, ['b'.repeat(64), ...old, ''].join('\n'));
    expect(await opened()).toEqual([SECRET]);
    const { dropped } = await rekey(client, file, false);
    expect(dropped).toHaveLength(2);
    expect(await opened()).toEqual([SECRET]);
  });

  test('is not written to if the operator has added the new key manually', async () => {
    await add(one);
    const text = ['b'.repeat(64), ...(await lines()), ''].join('\n');
    await writeFile(file, text);
    const { master_key, rewrapped, dropped } = await rekey(client, file, true);
    expect({ master_key, rewrapped, dropped }).toEqual({
      master_key: masterKeyId(Buffer.from('b'.repeat(64), 'hex')),
      rewrapped: 1,
      dropped: [],
    });
    expect(await readFile(file, 'utf8')).toBe(text);
    expect((await rows()).map((row) => row.master_key)).toEqual([master_key]);
  });

  test('is not created by a rekey', async () => {
    await expect(rekey(client, file, false)).rejects.toThrow('There is no master key yet');
    expect(readKeys(file)).toBeNull();
  });
});

test('only the relay reads credentials, and no role can replace a sealed secret', async () => {
  await using database = await createDatabase();
  for (const role of ['auditor', 'worker'] as const) {
    const client = await connectAs(database, role);
    for (const statement of [
      'select id from daybook.credential',
      `delete from daybook.credential`,
      `insert into daybook.credential default values`,
    ]) {
      await expect(client.query(statement), `${role}: ${statement}`).rejects.toMatchObject({ code: '42501' });
    }
    await client.end();
  }
  const relay = await connectAs(database, 'relay');
  for (const column of ['sealed_secret', 'fingerprint', 'upstream', 'id']) {
    await expect(
      relay.query(`update daybook.credential set ${column} = ${column}`),
      column,
    ).rejects.toMatchObject({ code: '42501' });
  }
  await relay.end();
});
