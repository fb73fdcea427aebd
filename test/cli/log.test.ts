import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Checkpoint, openCheckpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { recordLostEvents } from '#db/tlog/lost-events.ts';
import { parseNote, parseVerifierKey } from '#db/tlog/note.ts';
import { readCheckpointFile } from '#db/tlog/publish-directory.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, openWriter } from '../support/log/log-writer.ts';
import { publishNow } from '../support/audit/publishing.ts';
import { until } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';

/** What an operator does to the log: keys that sign it, and going on where it lost a part. */

let database: TestDatabase;
let dataDir: string;
let directory: string;
let keyFile: string;
const env = () => ({
  DAYBOOK_DATA: dataDir,
  DATABASE_URL: database.url,
  PUBLISH_DIR: directory,
  LOG_LEVEL: 'warn',
});
const { daybook, json, text } = commandLine(env);

beforeEach(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  directory = path.join(dataDir, 'published');
  keyFile = path.join(dataDir, 'signing-key');
});
afterEach(async () => {
  await database[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

async function fill(count: number): Promise<void> {
  await using writer = await openWriter(database);
  await writer.append(Array.from({ length: count }, () => accepted()));
}
const publish = () => publishNow(database, { keyFile, directory });
const newest = async (): Promise<string> => (await readCheckpointFile(directory)) ?? '';
/** Null between one epoch's checkpoint, that was set aside, and the next one's. */
const nameOf = async (): Promise<string | null> => {
  const note = await readCheckpointFile(directory);
  return note === null ? null : parseCheckpoint(parseNote(note).text).origin;
};

type Key = { verifier_key: string; position: number; signs: boolean };

/** Everything above a position goes, as if an older backup had been restored. */
async function cutAfter(position: number): Promise<void> {
  const superuser = await database.superuser();
  await superuser.query(`set session_replication_role = replica;
    delete from daybook.log where last_position > ${position};
    delete from daybook.log_batch where last_position > ${position};
    delete from daybook.control_event where position > ${position};
    delete from daybook.stream_head where stream not in (select stream from daybook.control_event);
    update daybook.instance set dead_at = now(), closed_at = now()`);
  await superuser.end();
}

describe('the keys that sign', () => {
  test('rotate-key: both keys sign until the old one is dropped, after a checkpoint with both', async () => {
    expect(await text('log', 'keys')).toContain('No key has signed yet');
    expect(await daybook('log', 'rotate-key')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no key has signed this log yet'),
    });
    await fill(3);
    await publish();
    const [first] = await json<Key[]>('log', 'keys');
    expect(first).toMatchObject({ position: 4, signs: true });

    const { added } = await json<{ added: string }>('log', 'rotate-key');
    expect(await daybook('log', 'rotate-key')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('drop the old one first'),
    });
    expect(await daybook('log', 'drop-key')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('the newer key has not signed a checkpoint yet'),
    });
    await publish();
    expect(
      (await json<Key[]>('log', 'keys')).map(({ verifier_key, signs }) => [verifier_key, signs]),
    ).toEqual([
      [first?.verifier_key, true],
      [added, true],
    ]);

    expect(await text('log', 'drop-key')).toContain(added);
    await fill(1);
    await publish();
    expect((await json<Key[]>('log', 'keys')).map(({ signs }) => signs)).toEqual([false, true]);
    expect(await text('log', 'checkpoint')).toBe(await newest());
    expect(await json('log', 'checkpoint')).toMatchObject({ origin: await nameOf(), size: 6 });
    expect(await text('log', 'keys')).toMatch(
      /^FROM +SINCE +NOW +KEY\n4 +\S+Z +- +daybook\/.*\n5 +\S+Z +signs +daybook\/.*\n$/,
    );
  });

  test('replace-key needs --yes and replaces only a lost key', async () => {
    await fill(3);
    await publish();
    expect(await daybook('log', 'replace-key', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('so it is not lost'),
    });
    await rm(keyFile);
    await fill(1);
    await expect(publish()).rejects.toThrow('log replace-key');
    expect(await daybook('log', 'replace-key')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--yes'),
    });
    const { verifier_key } = await json<{ verifier_key: string }>('log', 'replace-key', '--yes');
    await publish();
    expect(openCheckpoint(await newest(), [parseVerifierKey(verifier_key)]).checkpoint.size).toBe(6);
  });
});

describe('a log that lost its end', () => {
  test('starts no server until the loss is accepted, and then continues in a new epoch', async () => {
    await fill(1_200);
    await publish();
    const old = await nameOf();
    expect(await daybook('log', 'new-epoch', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no events are lost'),
    });
    await cutAfter(0);
    await fill(900);

    await expect(spawnServer(env())).rejects.toThrow(
      new RegExp(
        '^the server ended:\n' +
          'daybook: the log ends at position 900, and .* publishes it up to position 1201: ' +
          '.*"daybook log new-epoch"\n$',
      ),
    );
    expect(await daybook('doctor')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('FAIL checkpoints: the log ends at position 900'),
    });

    const shown = await daybook('log', 'new-epoch', '--json');
    expect(shown.code).toBe(1);
    expect(JSON.parse(shown.stdout)).toMatchObject({
      published: { size: 1201 },
      agrees_up_to: 0,
      head: 900,
      begun: null,
    });
    expect(await ask(database.config('auditor'), 'select daybook.head(0::smallint)::int')).toBe(900);
    expect(await text('log', 'new-epoch', '--yes')).toContain(
      `Epoch 2 begins at position 901. New checkpoints have the origin ${old}/2;`,
    );

    // The rows of the new history stand where nodes of the old one stood.
    await fill(150);
    const server = await spawnServer(env());
    try {
      await until(nameOf, (name) => name === `${old}/2`, 'a checkpoint of the new epoch');
    } finally {
      await server.stop();
    }
    expect(
      parseCheckpoint(
        await readFile(path.join(directory, 'epoch-1/checkpoint'), 'utf8').then(
          (note) => parseNote(note).text,
        ),
      ),
    ).toMatchObject({ origin: old, size: 1201 });
    const keys = (await json<Key[]>('log', 'keys')).map(({ verifier_key }) => parseVerifierKey(verifier_key));
    expect(openCheckpoint(await newest(), keys).checkpoint.origin).toBe(`${old}/2`);
    expect(await json('doctor')).toMatchObject({
      findings: expect.arrayContaining([expect.objectContaining({ check: 'checkpoints', ok: true })]),
    });
  });

  test('has its loss told to the event, whether it has gone on since or not', async () => {
    for (const count of [300, 350, 50]) await fill(count);
    await publish();
    await cutAfter(650);
    const shown = async (): Promise<unknown> =>
      JSON.parse((await daybook('log', 'new-epoch', '--json')).stdout);
    expect(await shown()).toMatchObject({ agrees_up_to: 650, head: 650, published: { size: 701 } });
    await fill(103);
    expect(await shown()).toMatchObject({ agrees_up_to: 650, head: 753 });
    expect((await daybook('log', 'new-epoch')).stdout).toContain('51 events, positions 651 to 701');
  });

  test('names events that a server found lost after the newest checkpoint, until given up', async () => {
    await fill(300);
    const { origin, size } = (await publish()) as Checkpoint;
    const lost = { instance: 1, batchNo: 7, first: size + 3, last: size + 40 };
    await recordLostEvents(directory, origin, lost);
    await expect(publish()).rejects.toThrow(
      `lacks the events at positions ${lost.first} to ${lost.last}, which servers had recorded`,
    );
    expect(JSON.parse((await daybook('log', 'new-epoch', '--json')).stdout)).toMatchObject({
      agrees_up_to: size,
      lost: { first_position: lost.first, last_position: lost.last },
      begun: null,
    });
    expect((await daybook('log', 'new-epoch')).stdout).toContain(
      `38 events, positions ${lost.first} to ${lost.last}`,
    );
    expect(await daybook('log', 'new-epoch', '--yes')).toMatchObject({ code: 0 });
    await publish();
    expect(await nameOf()).toBe(`${origin}/2`);
  });

  test('refuses a new epoch where a stream head and the last recorded head disagree', async () => {
    await fill(3);
    await publish();
    const superuser = await database.superuser();
    await superuser.query(
      `set session_replication_role = replica;
       delete from daybook.log where last_position = 4;
       delete from daybook.log_batch where last_position = 4;
       delete from daybook.control_event where position = 4`,
    );
    await superuser.end();
    expect(await daybook('log', 'new-epoch', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('daybook.stream_head'),
    });
  });

  test('gives nothing up where only the tree was changed, which is made anew', async () => {
    await fill(700);
    await publish();
    const superuser = await database.superuser();
    await superuser.query(
      `set session_replication_role = replica;
       update daybook.log_node set hash = sha256('') where number = 1`,
    );
    await superuser.end();
    expect(await daybook('log', 'new-epoch')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('up to an unknown position'),
    });
    expect(await text('log', 'new-epoch', '--yes')).toContain('No events are lost');
    await fill(1);
    expect(await publish()).toMatchObject({ size: 702 });
  });

  test('is not mixed up with another log', async () => {
    await fill(3);
    await publish();
    await using other = await createDatabase();
    // Databases of tests are copies of one.
    await ask(other.config('owner'), 'update daybook.install set log_id = gen_random_uuid()');
    await mkdir(path.join(dataDir, 'other'));
    await rename(directory, path.join(dataDir, 'other/published'));
    const elsewhere = commandLine(() => ({
      ...env(),
      DATABASE_URL: other.url,
      PUBLISH_DIR: path.join(dataDir, 'other/published'),
    }));
    expect(await elsewhere.daybook('log', 'new-epoch', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('publishes another log'),
    });
  });
});
