import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EventOf, Placed, RequestEvent } from '#db/events/events.ts';
import { uuidv7 } from '#db/ids.ts';
import { heartbeat, retireInstance } from '#db/instances/instance.ts';
import { FencedError } from '#db/log/append.ts';
import { OccupiedPositionError } from '#db/log/occupied-position.ts';
import { readHead, readPage } from '#db/log/read.ts';
import { ask, createDatabase } from '../../support/database.ts';
import { anyRequestEvent } from '../../support/log/arbitrary-event.ts';
import {
  accepted,
  connectAs,
  openWriter,
  readLog,
  registered,
  settled,
} from '../../support/log/log-writer.ts';

const positions = (log: readonly Placed[]): number[] => log.map(({ position }) => position);
const events = (log: readonly Placed[]) => log.map(({ event }) => event);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
const sample = (count: number): RequestEvent[] => fc.sample(anyRequestEvent, count);

describe('the order of the log', () => {
  test('is the order of appends, with dense positions and timestamps that never decrease', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    const batches = [1, 7, 1, 300, 2, 1_000].map(sample);
    let end = 0;
    for (const batch of batches) {
      end += batch.length;
      expect(await writer.append(batch)).toBe(end);
    }
    const log = await readLog(database);
    expect(positions(log)).toEqual(upTo(end));
    expect(events(log)).toEqual(batches.flat());
    for (const placed of log)
      expect(placed).toMatchObject({ shard: 0, instance: writer.instance, stream: null, version: null });
    const times = log.map(({ at }) => at.getTime());
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect(new Set(times).size).toBeLessThanOrEqual(batches.length);
  });

  test('holds for concurrent writers, without a gap in positions', async () => {
    await using database = await createDatabase();
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    const written = await Promise.all(
      [one, two, three].map(async (writer) => {
        const batches = upTo(25).map(sample);
        for (const batch of batches) await writer.append(batch);
        return { instance: writer.instance, all: batches.flat() };
      }),
    );
    const log = await readLog(database);
    expect(positions(log)).toEqual(upTo(3 * 325));
    for (const { instance, all } of written) {
      expect(events(log.filter((placed) => placed.instance === instance))).toEqual(all);
    }
  });
});

describe('a batch that is retried', () => {
  test('returns its first result and writes nothing, whatever it contains and came between', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await using other = await openWriter(database);
    const batch = sample(3);
    expect(await writer.append(batch, 7)).toBe(3);
    expect(await other.append(sample(2), 7)).toBe(5);
    const before = await readLog(database);
    expect(await writer.append(batch, 7)).toBe(3);
    expect(await writer.append(sample(9), 7)).toBe(3);
    expect(await other.append(batch, 7)).toBe(5);
    expect(await readLog(database)).toEqual(before);
  });

  test('over several connections at once is written once', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await using twin = await openWriter(database, writer.instance);
    await using triplet = await openWriter(database, writer.instance);
    for (let batchNo = 1; batchNo <= 20; batchNo++) {
      const batch = [accepted(), accepted()];
      const results = await Promise.all([writer, twin, triplet].map((each) => each.append(batch, batchNo)));
      expect(results).toEqual([batchNo * 2, batchNo * 2, batchNo * 2]);
    }
    expect(await readLog(database)).toHaveLength(40);
  });

  test('still returns its first result after its instance was fenced', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await writer.append([accepted()], 1);
    await writer.client.query('select daybook.fence_instance($1)', [writer.instance]);
    expect(await writer.append([accepted()], 1)).toBe(1);
    await expect(writer.append([accepted()], 2)).rejects.toThrow(FencedError);
    expect(await readLog(database)).toHaveLength(1);
  });
});

test.each(['fenced', 'retired', 'unknown'])(
  'an instance that is %s can append nothing of any kind, and is told so by its heartbeat',
  async (state) => {
    await using database = await createDatabase();
    await using writer = await openWriter(database, state === 'unknown' ? 1_000_000 : undefined);
    if (state === 'fenced') await writer.client.query('select daybook.fence_instance($1)', [writer.instance]);
    if (state === 'retired') await retireInstance(writer.client, writer.instance);
    await expect(writer.append([accepted()])).rejects.toThrow(FencedError);
    await expect(
      writer.control([{ event: registered(), version: 1, claim: 'account-name/x' }]),
    ).rejects.toThrow(FencedError);
    expect(await heartbeat(writer.client, writer.instance, 1)).toBeNull();
    expect(await readLog(database)).toEqual([]);
    expect(await ask(database.config('owner'), 'select count(*)::int from daybook.stream_head')).toBe(0);
  },
);

describe('a batch that cannot be written', () => {
  const good = accepted();
  test.each<[string, RequestEvent[]]>([
    ['a status beyond 16 bits', [good, settled(good, { status: 40_000 })]],
    ['tokens beyond 32 bits', [good, settled(good, { output_tokens: 2 ** 31 })]],
    ['a minute beyond 32 bits', [good, settled(good, { admitted_minute: 2 ** 31 })]],
    ['a NUL in a name', [good, accepted({ model: 'a\0b' })]],
    ['no event at all', []],
  ])('because of %s leaves nothing behind, and its number is free', async (_, batch) => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await expect(writer.append(batch, 1)).rejects.toThrow();
    expect(await readLog(database)).toEqual([]);
    expect(await writer.append([good], 1)).toBe(1);
  });
});

test('an append of any length is refused while a row of no batch stands behind the head', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  await writer.append(sample(2));
  const superuser = await database.superuser();
  await superuser.query(
    `insert into daybook.log select 7, at, event_count, instance, shard, events from daybook.log`,
  );
  for (const count of [1, 5, 10])
    await expect(writer.append(sample(count))).rejects.toMatchObject({
      name: 'OccupiedPositionError',
      position: 7,
    });
  await expect(writer.control([{ event: registered(), version: 1 }])).rejects.toThrow(OccupiedPositionError);
  await superuser.query(
    'set session_replication_role = replica; delete from daybook.log where last_position = 7',
  );
  await superuser.end();
  expect(await writer.append(sample(5))).toBe(7);
});

test('every request event is read back unchanged', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  await fc.assert(
    fc.asyncProperty(fc.array(anyRequestEvent, { minLength: 1, maxLength: 60 }), async (batch) => {
      const end = await writer.append(batch);
      const page = await readPage(writer.client, end - batch.length);
      expect(events(page)).toEqual(batch);
    }),
  );
});

test('an optional field set on few events of a batch, or only the last, stays with its event', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const plain = Array.from({ length: 300 }, () => accepted());
  const last = accepted({ retry_count: 1, hold_cost_nanousd: 2, admitted_minute: 3, terms_position: 4 });
  const among = plain.map((event, row) => (row % 97 === 1 ? { ...event, retry_count: row } : event));
  for (const batch of [plain, [...plain, last], [last, ...plain], among]) {
    const end = await writer.append(batch.map((event) => ({ ...event, request: uuidv7() })));
    const page = await readPage(writer.client, end - batch.length);
    const read = events(page).map((event) => ({ ...event, request: '' }));
    expect(read).toEqual(batch.map((event) => ({ ...event, request: '' })));
  }
});

test('counts up to the maximum of their columns are read back exactly', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const most: EventOf<'request.accepted'> = accepted({
    hold_tokens: Number.MAX_SAFE_INTEGER,
    body_bytes: 2 ** 31 - 1,
    retry_count: 2 ** 15 - 1,
  });
  const least: EventOf<'request.accepted'> = accepted({ hold_tokens: 0, body_bytes: 0, retry_count: 0 });
  const between = [2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 52].map((hold_tokens) =>
    accepted({ hold_tokens }),
  );
  const money = [0, 2 ** 31, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER].flatMap((amount) => [
    accepted({ hold_cost_nanousd: amount, terms_position: amount, admitted_minute: 0 }),
    settled(most, {
      cost_nanousd: amount,
      terms_position: amount,
      admitted_minute: 2 ** 31 - 1,
      price_version: 2 ** 31 - 1,
    }),
  ]);
  await writer.append([most, least, ...between, ...money]);
  expect(events(await readLog(database))).toEqual([most, least, ...between, ...money]);
});

describe('reading', () => {
  test('an empty log returns no events and a head of 0', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    expect(await readHead(writer.client)).toBe(0);
    expect(await readPage(writer.client, 0)).toEqual([]);
    expect(await readPage(writer.client, 0, 'control')).toEqual([]);
  });

  test('page by page returns every event once, in order', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    for (const size of [10, 1, 25]) await writer.append(sample(size));
    const pages: Placed[] = [];
    for (
      let page = await readPage(writer.client, 0, 'all', 7);
      page.length > 0;
      page = await readPage(writer.client, pages.length, 'all', 7)
    ) {
      expect(page.length).toBe(Math.min(7, 36 - pages.length));
      pages.push(...page);
    }
    expect(positions(pages)).toEqual(upTo(36));
    expect(await readHead(writer.client)).toBe(36);
  });
});

describe('partitions', () => {
  const SIZE = 50_000_000;

  test('a batch over a border is split; one beyond the last partition is not partly written', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    const owner = await connectAs(database, 'owner');
    // As if that many events had gone before.
    const pretend = async (head: number): Promise<void> => {
      await owner.query(
        `insert into daybook.log_batch
            (last_position, batch_no, at, event_count, instance, shard, format, chain)
          values ($1::bigint, $1::bigint, now(), 1, 0, 0, 1, 'x')`,
        [head],
      );
    };
    await pretend(SIZE - 3);
    const batch = sample(5);
    expect(await writer.append(batch)).toBe(SIZE + 2);
    expect(events(await readPage(writer.client, SIZE - 3))).toEqual(batch);
    const batches = 'select array_agg(last_position::float8 order by 1) from daybook.log';
    expect(await ask(database.config('auditor'), batches)).toEqual([SIZE - 1, SIZE + 2]);

    await pretend(2 * SIZE - 3);
    await expect(writer.append(batch)).rejects.toMatchObject({ code: '23514' });
    expect(await readHead(writer.client)).toBe(2 * SIZE - 3);
    await writer.client.query('select daybook.create_partitions(1)');
    expect(await writer.append(batch)).toBe(2 * SIZE + 2);
    expect(events(await readPage(writer.client, 2 * SIZE - 3))).toEqual(batch);
    await owner.end();
  });

  test('are created ahead by several servers at once, each exactly once', async () => {
    await using database = await createDatabase();
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    await Promise.all(
      [one, two, three].map(({ client }) => client.query('select daybook.create_partitions(4)')),
    );
    const count = "select count(*)::int from pg_inherits where inhparent = 'daybook.log'::regclass";
    expect(await ask(database.config('auditor'), count)).toBe(5);
    const { rows } = await one.client.query('select daybook.create_partitions(4) as made');
    expect(rows).toEqual([{ made: 0 }]);
  });
});
