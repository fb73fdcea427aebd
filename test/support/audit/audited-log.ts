import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as fc from 'fast-check';
import type { Client, ClientBase } from 'pg';
import { type Evidence, readPublishedCheckpoint } from '#db/audit/verify/evidence.ts';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import type { Report } from '#db/audit/verify/report.ts';
import { linkBatch } from '#db/log/chain.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import { readBatches } from './verify-chain.ts';
import { createDatabase, type TestDatabase } from '../database.ts';
import { anyCallEvent, anyCorrection } from '../log/arbitrary-request.ts';
import { appendFirstControls, appendFirstRequests } from './first-events.ts';
import { connectAs, openWriter, registered, suspended } from '../log/log-writer.ts';

/**
 * A log of several writers, published several times and at its end, for tests that change it.
 */
export type AuditedLog = AsyncDisposable & {
  database: TestDatabase;
  superuser: Client;
  /** The directory with the key and the publish directory. */
  directory: string;
  /** The publish directory with its key; and only an older checkpoint with that key. */
  evidence: Evidence;
  older: Evidence;
  olderSize: number;
  head: number;
  publish(): Promise<void>;
  /** The report after these statements, which are then rolled back. */
  after(statements: readonly string[], by?: Evidence): Promise<Report>;
};

export async function createAuditedLog(): Promise<AuditedLog> {
  const directory = await mkdtemp(path.join(tmpdir(), 'daybook-audited-'));
  const published = path.join(directory, 'published');
  const database = await createDatabase();
  const relay = await connectAs(database, 'relay');
  const instance = await registerInstance(relay, 'first');
  for (let batch = 0; batch < 4; batch++) {
    if (batch % 2 === 0) await appendFirstRequests(relay, instance, batch);
    else await appendFirstControls(relay, instance, batch, batch === 1 ? 1 : 4);
  }
  await relay.end();
  const publish = async (): Promise<void> => {
    await using writer = await openWriter(database);
    const client = await connectAs(database, 'worker');
    let next = 1;
    try {
      await publishCheckpoint(client, {
        keyFile: path.join(directory, 'key'),
        directory: published,
        writer: { instance: writer.instance, nextBatchNo: () => next++ },
      });
    } finally {
      await client.end();
    }
  };
  await using one = await openWriter(database);
  await using other = await openWriter(database);
  let older: Evidence = {};
  let olderSize = 0;
  for (const count of [7, 200, 90, 1, 300]) {
    await one.append(fc.sample(anyCallEvent, { numRuns: count, seed: count }));
    const event = registered();
    await other.control([
      { event, version: 1, claim: `account-name/${event.name}` },
      { event: suspended(event.account), version: 2 },
    ]);
    await other.append(fc.sample(anyCallEvent, { numRuns: 5, seed: count }));
    await other.correct(fc.sample(anyCorrection, { numRuns: 3, seed: count }));
    await publish();
    if (count !== 90) continue;
    const { claim, keys } = await readPublishedCheckpoint(published);
    older = { keys, checkpoints: claim ? [{ ...claim, from: 'older' }] : [] };
    olderSize = Number(claim?.note.split('\n')[1]);
  }
  const superuser = await database.superuser();
  const { rows } = await superuser.query<{ head: string }>('select daybook.head(0::smallint) as head');
  const evidence: Evidence = { published, keys: older.keys ?? [] };
  return {
    database,
    superuser,
    directory,
    evidence,
    older,
    olderSize,
    publish,
    head: Number(rows[0]?.head),
    after(statements, by = evidence) {
      return verifyChanged(superuser, statements, by);
    },
    async [Symbol.asyncDispose]() {
      await superuser.end();
      await database[Symbol.asyncDispose]();
      await rm(directory, { recursive: true });
    },
  };
}

/**
 * Recomputes the hash chain from a position on, as an attacker could.
 */
export async function rechain(client: ClientBase, from: number): Promise<void> {
  const batches = await readBatches(client);
  const at = batches.findIndex(({ row }) => Number(row.lastPosition) >= from);
  let chain = batches[at - 1]?.row.chain as Buffer;
  for (const batch of batches.slice(at)) {
    chain = linkBatch(chain, batch);
    await client.query('update daybook.log_batch set chain = $1 where last_position = $2', [
      chain,
      batch.row.lastPosition,
    ]);
  }
}

/** The report after these statements of a superuser, which are rolled back. */
export async function verifyChanged(
  superuser: Client,
  statements: readonly string[],
  by: Evidence,
): Promise<Report> {
  await superuser.query('begin; set local session_replication_role = replica');
  try {
    for (const statement of statements) await superuser.query(statement);
    return await verifyDatabase(superuser, by);
  } finally {
    await superuser.query('rollback');
  }
}
