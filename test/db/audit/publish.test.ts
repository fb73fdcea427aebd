import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { leafHash } from '#db/log/chain.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import { readCheckpointFile, readLeafTile, readVerifierKeys } from '#db/tlog/publish-directory.ts';
import { addSigningKey, dropOldKey } from '#db/tlog/signing-key.ts';
import { readRoot, readLogState, requireConsistent, InconsistentLogError } from '#db/tlog/log-state.ts';
import { readEntries } from '../../support/audit/verify-chain.ts';
import { changeEvents } from '../../support/audit/change-lines.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyRequestEvent } from '../../support/log/arbitrary-event.ts';
import { connectAs, openWriter } from '../../support/log/log-writer.ts';
import { GrowingTree } from '../../support/audit/growing-tree.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'daybook-publish-'));
});
afterEach(() => rm(directory, { recursive: true }));

const published = (): string => path.join(directory, 'published');
const keyFile = (): string => path.join(directory, 'signing-key');

async function publishOnce(database: TestDatabase, to = published()) {
  await using writer = await openWriter(database);
  const client = await connectAs(database, 'worker');
  let batchNo = 1_000;
  try {
    return await publishCheckpoint(client, {
      keyFile: keyFile(),
      directory: to,
      writer: { instance: writer.instance, nextBatchNo: () => batchNo++ },
    });
  } finally {
    await client.end();
  }
}

/** The leaves of the full log, computed without the database. */
async function leavesOf(database: TestDatabase): Promise<Buffer[]> {
  const client = await connectAs(database, 'auditor');
  try {
    return (await readEntries(client)).map(leafHash);
  } finally {
    await client.end();
  }
}

async function fill(database: TestDatabase, count: number): Promise<void> {
  await using writer = await openWriter(database);
  const events = fc.sample(anyRequestEvent, Math.min(count, 1_000));
  for (let left = count; left > 0; left -= events.length) await writer.append(events.slice(0, left));
}

describe('publish', () => {
  test('publish: the signed checkpoint has the root of every event, the tiles every leaf', async () => {
    await using database = await createDatabase();
    for (const more of [5, 250, 1, 700, 513]) {
      await fill(database, more);
      const checkpoint = await publishOnce(database);
      const leaves = await leavesOf(database);
      const tree = new GrowingTree();
      for (const leaf of leaves) tree.append(leaf);
      expect(checkpoint).toMatchObject({ size: leaves.length, root: tree.root() });
      const keys = (await readVerifierKeys(published())).map(parseVerifierKey);
      expect(openCheckpoint((await readCheckpointFile(published())) ?? '', keys).checkpoint).toEqual(
        checkpoint,
      );
      for (let tile = 0; tile * 256 < leaves.length; tile++) {
        expect(await readLeafTile(published(), tile)).toEqual(
          Buffer.concat(leaves.slice(tile * 256, (tile + 1) * 256)),
        );
      }
    }
    expect(await publishOnce(database)).toBeNull();
    // Two directories of one log have the same tree, whenever each was started.
    expect(await publishOnce(database, path.join(directory, 'another'))).not.toBeNull();
    const tile = 'tile/0/001';
    expect(await readFile(path.join(directory, 'another', tile))).toEqual(
      await readFile(path.join(published(), tile)),
    );
    expect(await readdir(path.join(published(), 'tile/1'))).toEqual(['000.p']);
  });

  test('publish: stored nodes have the roots of their subtrees, and no leaf is stored', async () => {
    await using database = await createDatabase();
    await fill(database, 66_000);
    const checkpoint = await publishOnce(database);
    const client = await connectAs(database, 'auditor');
    const { rows } = await client.query(
      'select level, count(*)::integer as count from daybook.log_node group by level order by level',
    );
    expect(rows).toEqual([
      { level: 1, count: 257 },
      { level: 2, count: 1 },
    ]);
    expect(await readRoot(client, 66_001)).toEqual(checkpoint?.root);
    await client.end();
    // The next checkpoint reads new events and a few hashes, not the full log.
    const superuser = await database.superuser();
    const read = async (): Promise<number> => {
      const { rows: blocks } = await superuser.query<{ count: number }>(
        `select sum(heap_blks_read + heap_blks_hit)::integer as count from pg_statio_user_tables
          where relname like 'log\\_0%'`,
      );
      return blocks[0]?.count ?? 0;
    };
    // The planner chooses otherwise once it has statistics of the log.
    await superuser.query('analyze daybook.log, daybook.log_batch');
    const before = await read();
    await fill(database, 10);
    await publishOnce(database);
    const blocks = (await read()) - before;
    await superuser.end();
    expect(blocks).toBeGreaterThan(0);
    expect(blocks).toBeLessThan(200);
  });

  test('publish: both keys sign during a key rotation, and the log records them', async () => {
    await using database = await createDatabase();
    await fill(database, 3);
    await publishOnce(database);
    const [first] = (await readVerifierKeys(published())).map(parseVerifierKey);
    addSigningKey(keyFile());
    await publishOnce(database);
    const [, second] = (await readVerifierKeys(published())).map(parseVerifierKey);
    const both = (await readCheckpointFile(published())) ?? '';
    for (const key of [first, second]) expect(openCheckpoint(both, [key as never]).checkpoint.size).toBe(5);
    dropOldKey(keyFile());
    await fill(database, 1);
    await publishOnce(database);
    const newest = (await readCheckpointFile(published())) ?? '';
    expect(openCheckpoint(newest, [second as never]).checkpoint.size).toBe(6);
    expect(() => openCheckpoint(newest, [first as never])).toThrow();
    const client = await connectAs(database, 'auditor');
    const { rows } = await client.query(
      'select position from daybook.events() where type = 80 order by position',
    );
    expect(rows).toHaveLength(2);
    await client.end();
  });

  test('publish: fails with a key that never signed this log', async () => {
    await using database = await createDatabase();
    await fill(database, 3);
    await publishOnce(database);
    await rm(keyFile());
    await fill(database, 1);
    await expect(publishOnce(database)).rejects.toThrow('does not exist. It must contain the key');
    await using other = await createDatabase();
    await fill(other, 1);
    await publishOnce(other, path.join(directory, 'another'));
    await expect(publishOnce(database)).rejects.toThrow('is not the key that signs this log');
  });
});

describe('publish of an inconsistent log', () => {
  test('publish: a log that grew and was published in the meantime is consistent', async () => {
    await using database = await createDatabase();
    await fill(database, 10);
    const client = await connectAs(database, 'relay');
    const before = await readLogState(client);
    await fill(database, 10);
    const checkpoint = await publishOnce(database);
    // The origin and keys are current, the head is a moment old.
    const standing = { ...(await readLogState(client)), head: before.head };
    expect(await requireConsistent(client, published(), standing)).toEqual(checkpoint);
    await client.end();
  });

  test.each([
    [
      'truncated',
      ['log', 'log_batch']
        .map((table) => `delete from daybook.${table} where last_position > 1000`)
        .join(';'),
    ],
    // A change deeper in the log is found only by an audit, which reads the full log.
    ['changed in its newest events', changeEvents('position = 1100', { model: "'another'" })],
  ])('publish: fails when the log was %s', async (_how, change) => {
    await using database = await createDatabase();
    await fill(database, 1_200);
    await publishOnce(database);
    const superuser = await database.superuser();
    await superuser.query(`set session_replication_role = replica; ${change}`);
    await superuser.end();
    await expect(publishOnce(database)).rejects.toThrow(InconsistentLogError);
  });
});
