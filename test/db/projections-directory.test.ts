import { array, assert, asyncProperty, oneof } from 'fast-check';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ControlEvent, isControl } from '#db/events/events.ts';
import { type Account, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { readHead, readPage } from '#db/log/read.ts';
import { directory } from '#db/projections/directory.ts';
import { isOf } from '#db/projections/directory-rows.ts';
import { readEventPage } from '#db/projections/page/page.ts';
import { PROJECTING } from '#db/projections/project.ts';
import { streamOf } from '#db/events/streams.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { anyControlEvent } from '../support/log/arbitrary-event.ts';
import { connectAs, openWriter, type Writer } from '../support/log/log-writer.ts';

let database: TestDatabase;
let writer: Writer;
let worker: Client;
let last = 0;

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

type Stored = Record<string, unknown>;

/** Appends these, then takes them in one by one or all at once, and reads a table; nothing stays of it. */
async function directoryOf(after: number, head: number, step: number, table: string): Promise<Stored[]> {
  await worker.query(`begin; ${PROJECTING}; set local search_path = pg_temp, daybook`);
  try {
    await worker.query("select daybook.create_projection('directory')");
    for (let from = after; from < head; from += step)
      await directory.apply(
        worker,
        await readEventPage(worker, { after: from, upTo: Math.min(head, from + step) }),
      );
    const { rows } = await worker.query<[Stored]>({
      text: `select row_to_json(t) from ${table} t order by position`,
      rowMode: 'array',
    });
    return rows.map(([row]) => row);
  } finally {
    await worker.query('rollback');
  }
}

async function append(events: readonly ControlEvent[]): Promise<{ after: number; head: number }> {
  const after = await readHead(writer.client);
  for (const event of events) {
    const stream = streamOf(event);
    const { rows } = await writer.client.query<{ version: number }>(
      'select version from daybook.stream_head where stream = $1',
      [stream],
    );
    await writer.control([{ event, version: (rows[0]?.version ?? 0) + 1 }], ++last);
  }
  return { after, head: await readHead(writer.client) };
}

const accountOf = ({ id, state, plan, override, version }: Account) => ({
  id,
  state,
  plan,
  override,
  version,
});
const keyOf = ({ id, account, secret, previous, terms, version, ...times }: Key) => ({
  id,
  account,
  terms,
  version,
  last4: secret.last4,
  overlap_ends_at: previous?.endsAt ?? null,
  previous_last4: previous?.last4 ?? null,
  created_at: times.createdAt,
  expires_at: times.expiresAt,
  expired_at: times.expiredAt,
  revoked_at: times.revokedAt,
});

const account = (id: string, rest: object): ControlEvent =>
  ({ account: id, actor: 'test', ...rest }) as ControlEvent;

const of = (type: string) => anyControlEvent.filter((event) => event.type.startsWith(type));

test('the directory equals the folds of accounts and keys, over random events and page sizes', async () => {
  await assert(
    asyncProperty(
      of('account.registered'),
      of('key.created'),
      array(oneof(anyControlEvent, of('account.'), of('key.')), { minLength: 5, maxLength: 25 }),
      async (first, second, events) => {
        // All of one account and one key, so that each is of something.
        const id = `Acc${String(++last).padStart(5, '0')}`;
        const same = [first, second, ...events].map((event): ControlEvent => ({
          ...event,
          ...('account' in event ? { account: id } : {}),
          ...('key' in event ? { key: id } : {}),
        }));
        const { after, head } = await append(same);
        const accounts = new Map<string, Account | undefined>();
        const keys = new Map<string, Key | undefined>();
        for (const placed of await readPage(writer.client, after, 'control')) {
          if (!isControl(placed)) continue;
          if (isOf.key(placed)) keys.set(placed.event.key, evolveKey(keys.get(placed.event.key), placed));
          else if (isOf.account(placed))
            accounts.set(placed.event.account, evolveAccount(accounts.get(placed.event.account), placed));
        }
        const stored = await directoryOf(after, head, 1, 'account');
        expect(stored).toEqual(await directoryOf(after, head, head, 'account'));
        expect(stored).toMatchObject(
          [...accounts.values()].filter((each) => each !== undefined).map(accountOf),
        );
        const storedKeys = await directoryOf(after, head, 1, 'key');
        expect(storedKeys).toEqual(await directoryOf(after, head, head, 'key'));
        const dated = storedKeys.map((row) =>
          Object.fromEntries(
            Object.entries(row).map(([name, value]) => [
              name,
              name.endsWith('_at') && value !== null ? new Date(value as string) : value,
            ]),
          ),
        );
        expect(dated).toMatchObject([...keys.values()].filter((each) => each !== undefined).map(keyOf));
        for (const table of ['plan', 'model_price'])
          expect(await directoryOf(after, head, 1, table)).toEqual(
            await directoryOf(after, head, head, table),
          );
      },
    ),
    { numRuns: 12 },
  );
});

test("a name with characters that Postgres can't store is shown without them", async () => {
  const { after, head } = await append([
    account('NulName1', { type: 'account.registered', name: 'a\0b\ud800c' }),
  ]);
  expect(await directoryOf(after, head, 1, 'account')).toMatchObject([
    { id: 'NulName1', name: 'a\ufffdb\ufffdc' },
  ]);
});
