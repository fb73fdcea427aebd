import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as fc from 'fast-check';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Evidence } from '#db/audit/evidence.ts';
import { readPublishedClaim } from '#db/audit/evidence.ts';
import { verifyDatabase } from '#db/audit/verify.ts';
import type { Report } from '#db/audit/verify-report.ts';
import { registerInstance } from '#db/instance.ts';
import { migrate } from '#db/migrate.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import type { TestDatabase } from '../support/database.ts';
import { anyRequestEvent } from '../support/event-made.ts';
import { appendFirstControls, appendFirstRequests, createFirstVersion } from '../support/format-one.ts';
import { connectAs, openWriter, registered, suspended } from '../support/log-writer.ts';

/** A log of several writers and both formats, published twice on the way and once at its end. */

let database: TestDatabase;
let superuser: Client;
let directory: string;
let evidence: Evidence;
let older: Evidence;
/** The position of the first event of format 2, and the head. */
let second: number;
let head: number;

const publish = async (batchNo: number): Promise<void> => {
  await using writer = await openWriter(database);
  const client = await connectAs(database, 'worker');
  let next = batchNo;
  try {
    await publishCheckpoint(client, { keyFile: path.join(directory, 'key'), directory: path.join(directory, 'published'), writer: { instance: writer.instance, nextBatchNo: () => next++ } });
  } finally {
    await client.end();
  }
};

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'daybook-verify-'));
  database = await createFirstVersion();
  const old = await connectAs(database, 'relay');
  const instance = await registerInstance(old, 'old');
  for (let batch = 0; batch < 4; batch++) {
    if (batch % 2 === 0) await appendFirstRequests(old, instance, batch);
    else await appendFirstControls(old, instance, batch, batch === 1 ? 1 : 4);
  }
  await old.end();
  await migrate(database);
  second = 13;
  await using one = await openWriter(database);
  await using other = await openWriter(database);
  for (const count of [7, 200, 90]) {
    await one.append(fc.sample(anyRequestEvent, count));
    const event = registered();
    await other.control([{ event, version: 1, claim: `account-name/${event.name}` }, { event: suspended(event.account), version: 2 }]);
    await other.append(fc.sample(anyRequestEvent, 5));
    await publish(100 + count);
    if (count === 200) older = { checkpoints: [{ from: 'older', note: (await readPublishedClaim(path.join(directory, 'published'))).claim?.note ?? '' }] };
  }
  const published = path.join(directory, 'published');
  const { keys } = await readPublishedClaim(published);
  evidence = { published, keys };
  older = { ...older, keys };
  superuser = await database.superuser();
  const { rows } = await superuser.query<{ head: string }>('select daybook.head(0::smallint) as head');
  head = Number(rows[0]?.head);
});
afterAll(async () => {
  await superuser?.end();
  await database?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** What an auditor finds after these statements, which are then undone. */
async function after(statements: readonly string[], by: Evidence = evidence): Promise<Report> {
  await superuser.query('begin; set local session_replication_role = replica');
  try {
    for (const statement of statements) await superuser.query(statement);
    return await verifyDatabase(superuser, by);
  } finally {
    await superuser.query('rollback');
  }
}

describe('a log that nobody changed', () => {
  test('is found good, covered by its newest checkpoint to the end', async () => {
    const auditor = await connectAs(database, 'auditor');
    const report = await verifyDatabase(auditor, evidence);
    await auditor.end();
    expect(report).toMatchObject({ findings: [], notes: [], events: head, head, covered: head, checkpoints: 4, trust: 'given' });
  });
});

describe('a row of the log that was changed', () => {
  test.each<[string, string, number]>([
    ['a value', 'update daybook.log set instance = instance + 1 where position = 60', 60],
    ['a request', "update daybook.log set request = gen_random_uuid() where position = 60", 60],
    ['its time', "update daybook.log set at = at + interval '1 microsecond' where position = 60", 60],
    ['a body', `update daybook.log set body = body || ' ' where position = 5`, 5],
    ['its type', 'update daybook.log set type = 77 where position = 60', 60],
    ['its shard', 'update daybook.log set shard = 1 where position = 60', 60],
    ['a column that its format does not cover', 'update daybook.log set cost_microusd = 1 where position = 2', 2],
    ['a time without end', "update daybook.log set at = 'infinity' where position = 60", 60],
    ['deletion', 'delete from daybook.log where position = 60', 60],
    ['a place behind the others', 'update daybook.log set position = position + 10000 where position = 60', 60],
    ['a row more', 'insert into daybook.log select (jsonb_populate_record(l, \'{"position":0}\')).* from daybook.log l where position = 60', 0],
    ['a row behind the end', `insert into daybook.log select (jsonb_populate_record(l, jsonb_build_object('position', daybook.head(0::smallint) + 1))).* from daybook.log l where position = 60`, -1],
  ])('in %s is named by its position', async (_what, change, position) => {
    const { findings } = await after([change]);
    expect(findings[0]).toMatchObject({ position: position < 0 ? head + 1 : position });
  });
});
