import { array, assert, asyncProperty, nat } from 'fast-check';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readHead, readPage } from '#db/log/read.ts';
import { readEventPage } from '#db/projections/page/page.ts';
import { directory } from '#db/projections/directory.ts';
import { history } from '#db/projections/history.ts';
import { PROJECTING } from '#db/projections/project.ts';
import type { Projection } from '#db/projections/projection.ts';
import { quotas } from '#db/projections/quotas.ts';
import { requests } from '#db/projections/requests.ts';
import { usage } from '#db/projections/usage.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs, openWriter, type Writer } from '../support/log/log-writer.ts';
import {
  foldRequests,
  foldStatements,
  foldUsage,
  type Row,
  type Rows,
  STATEMENT_KEY,
} from '../support/projections/projection-fold.ts';
import { foldHistory } from '../support/projections/projection-history.ts';
import { DIGEST, HistoryWriter } from '../support/projections/arbitrary-history.ts';
import { anyHistory, type HistoryStep } from '../support/projections/history-steps.ts';
import { foldQuotas } from '../support/projections/projection-quotas.ts';

/** The tables are what the log says, whatever happened and however it was cut into ranges. */

const PROJECTIONS = [requests, usage, history, quotas, directory];
const KEYS: Record<string, readonly string[]> = {
  request: ['request'],
  running_request: ['request'],
  usage_minute: ['minute', 'account', 'key', 'model'],
  usage_hour_key: ['hour', 'account', 'key', 'model'],
  usage_day: ['day', 'account', 'key', 'model'],
  usage_hour: ['hour', 'account'],
  usage_day_account: ['day', 'account'],
  usage_minute_total: ['minute'],
  usage_hour_total: ['hour'],
  statement_day: STATEMENT_KEY,
  key_use: ['key'],
  usage_history: ['subject', 'hour'],
  quota_window: ['subject', 'meter', 'window_kind', 'window_start', 'reset_position'],
};

let database: TestDatabase;
let writer: Writer;
let worker: Client;

beforeAll(async () => {
  database = await createDatabase();
  writer = await openWriter(database);
  worker = await connectAs(database, 'worker');
});

afterAll(async () => {
  await worker.end();
  await writer[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

/**
 * A fresh copy of all tables, made of the log above `after` in ranges that end at these positions; each row
 * as its text.
 */
async function project(after: number, ends: readonly number[]): Promise<Map<string, string[]>> {
  await worker.query(`begin; ${PROJECTING}; set local search_path = pg_temp, daybook`);
  try {
    for (const { name } of PROJECTIONS) await worker.query('select daybook.create_projection($1)', [name]);
    let from = after;
    for (const upTo of ends) {
      const page = await readEventPage(worker, { after: from, upTo });
      for (const projection of PROJECTIONS) await projection.apply(worker, page);
      from = upTo;
    }
    const tables = new Map<string, string[]>();
    for (const table of PROJECTIONS.flatMap((projection: Projection) => projection.tables)) {
      const { rows } = await worker.query<[string]>({
        text: `select row_to_json(t)::text from ${table} t order by 1`,
        rowMode: 'array',
      });
      tables.set(
        table,
        rows.map(([text]) => text),
      );
    }
    return tables;
  } finally {
    await worker.query('rollback');
  }
}

/** As the judge has them: by their keys, with times as dates. */
function read(table: string, texts: readonly string[]): Rows {
  return new Map(
    texts.map((text) => {
      const row = JSON.parse(text) as Row;
      for (const [name, value] of Object.entries(row))
        if (/_at$|^minute$|^hour$|^day$/.test(name) && typeof value === 'string') row[name] = new Date(value);
      const key = (KEYS[table] as string[]).map((name) => row[name]);
      return [key.length === 1 && typeof key[0] === 'string' ? key[0] : JSON.stringify(key), row];
    }),
  );
}

const QUOTA = { meter: 'tokens', window: 'hour', limit: 3, enforcement: 'soft' } as const;
/** One range has the adjustment and, after it, the first terms of the quota that it is of. */
const ADJUSTED_BEFORE_ITS_QUOTA: HistoryStep[] = [
  { kind: 'adjust', whose: 0, which: 0, units: 3, ago: 0, isOfKey: true },
  { kind: 'restrict', whose: 0, terms: { quotas: [QUOTA] }, windows: 'keep' },
];

test('each table equals a fold event by event, over random events and page ranges', async () => {
  await assert(
    asyncProperty(anyHistory, array(nat(), { maxLength: 12 }), async (steps, cuts) => {
      const after = await readHead(writer.client);
      await new HistoryWriter(writer).write(steps);
      const head = await readHead(writer.client);
      const log = await readPage(writer.client, after);
      const inOne = await project(after, [head]);
      const ends = [...new Set(cuts.map((cut) => after + 1 + (cut % (head - after))))].toSorted(
        (one, other) => one - other,
      );
      expect(
        await project(
          after,
          [...ends, head].filter((end, index, all) => all.indexOf(end) === index),
        ),
      ).toEqual(inOne);
      const judged: Record<string, Rows> = {
        ...foldRequests(log),
        ...foldUsage(log),
        statement_day: foldStatements(log),
        usage_history: foldHistory(log),
        quota_window: foldQuotas(log),
      };
      for (const [table, rows] of Object.entries(judged))
        expect(read(table, inOne.get(table) as string[]), table).toEqual(rows);
      expect(JSON.stringify([...inOne])).not.toContain(DIGEST);
    }),
    { numRuns: 9, examples: [[ADJUSTED_BEFORE_ITS_QUOTA, []]] },
  );
});
