import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { streamOf } from '#db/events/streams.ts';
import { publicId } from '#db/ids.ts';
import { ConflictError, type ControlAppend } from '#db/log/append.ts';
import { readPage, readStream } from '#db/log/read.ts';
import { controller } from '../../support/controller.ts';
import { ask, createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyControlEvent, anyRequestEvent } from '../../support/log/arbitrary-event.ts';
import { accepted, openWriter, readLog, registered, suspended } from '../../support/log/log-writer.ts';

const footprint = async (database: TestDatabase): Promise<unknown> =>
  ask(
    database.config('owner'),
    `select json_build_array(daybook.head(0::smallint),
      (select json_agg(h order by stream) from daybook.stream_head h))::text`,
  );

test('every control event comes back as it went in, whatever its names hold', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const versions = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(anyControlEvent, { minLength: 1, maxLength: 20 }), async (events) => {
      const appends = events.map((event): ControlAppend => {
        const version = (versions.get(streamOf(event)) ?? 0) + 1;
        versions.set(streamOf(event), version);
        return { event, version };
      });
      const end = await writer.control(appends);
      const page = await readPage(writer.client, end - events.length);
      expect(page.map(({ event }) => event)).toEqual(events);
      expect(page.map(({ stream, version }) => ({ stream, version }))).toEqual(
        appends.map(({ event, version }) => ({ stream: streamOf(event), version })),
      );
      // What is hashed is plain ASCII, so that no locale has a say in it.
      expect(
        await ask(
          database.config('auditor'),
          String.raw`select count(*)::int from daybook.log where events ~ '[^ -~\n]'`,
        ),
      ).toBe(0);
    }),
  );
});

test('the prices of a model stand in the log under its name, and plans under no account', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const base = { input: 2_500_000, cache_read: 1_250_000, output: 10_000_000 };
  await writer.control([
    {
      event: { type: 'model.priced', model: 'gpt-4o*', base, source: 'manual', actor: 'command-line' },
      version: 1,
    },
    { event: { type: 'plan.defined', plan: 'basic', terms: {}, actor: 'command-line' }, version: 1 },
  ]);
  const { rows } = await writer.client.query(
    'select account, key, model, stream from daybook.events() order by position',
  );
  expect(rows).toEqual([
    { account: null, key: null, model: 'gpt-4o*', stream: 'model/gpt-4o*' },
    { account: null, key: null, model: null, stream: 'plan/basic' },
  ]);
});

test('daybook.control_event has the control events of the log, and those alone', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const control = controller(writer);
  for (const count of [1, 7, 30]) {
    await control(count);
    await writer.append(fc.sample(anyRequestEvent, 3));
  }
  const fields = 'type, stream, version, account, key';
  const columns = `position, at, instance, ${fields}, line`;
  const { rows } = await writer.client.query(
    `with stored as (select ${columns} from daybook.control_event where shard = 0),
      logged as (select position, at, instance, ${fields}, line
        from daybook.lines() l, unnest(array[l.line::daybook.event_fields]) where stream is not null)
    select count(*)::int from (table stored intersect table logged) s union all
    select count(*)::int from (table stored union table logged) s`,
  );
  expect(rows).toEqual([{ count: 38 }, { count: 38 }]);
});

test('an event that is not of the vocabulary is not written', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  await expect(writer.control([{ event: { ...registered(), name: '' }, version: 1 }])).rejects.toThrow();
  await expect(writer.control([{ event: { ...registered(), actor: 'x\ny' }, version: 1 }])).rejects.toThrow();
  expect(await readLog(database)).toEqual([]);
});

test('one stream is read by itself, from its beginning, in the order of its versions', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const [one, other] = [publicId(), publicId()];
  await writer.control([
    { event: registered(one), version: 1 },
    { event: registered(other), version: 1 },
  ]);
  await writer.append([accepted({ account: one })]);
  await writer.control([
    { event: suspended(other), version: 2 },
    { event: suspended(one), version: 2 },
  ]);
  const stream = await readStream(writer.client, `account/${one}`);
  expect(stream.map(({ version, position, event }) => [version, position, event.type])).toEqual([
    [1, 1, 'account.registered'],
    [2, 5, 'account.suspended'],
  ]);
  expect(await readStream(writer.client, 'account/Nobody00')).toEqual([]);
  expect((await readPage(writer.client, 0, 'control')).map(({ position }) => position)).toEqual([1, 2, 4, 5]);
  expect((await readPage(writer.client, 2, 'control', 1)).map(({ position }) => position)).toEqual([4]);
});

describe('a stream that has moved on', () => {
  test.each([0, 1, 3, 99])('refuses version %i where 2 is due, and nothing is written', async (version) => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    const account = publicId();
    await writer.control([{ event: registered(account), version: 1 }]);
    const before = await footprint(database);
    await expect(writer.control([{ event: suspended(account), version }])).rejects.toThrow(ConflictError);
    expect(await footprint(database)).toBe(before);
    expect(await writer.control([{ event: suspended(account), version: 2 }])).toBe(2);
  });

  test('takes the other events of its batch, and their claims, with it', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    const [old, fresh] = [publicId(), publicId()];
    await writer.control([{ event: registered(old), version: 1 }]);
    const before = await footprint(database);
    const batch = [
      { event: registered(fresh), version: 1, claim: 'account-name/fresh' },
      { event: suspended(old), version: 7 },
    ];
    await expect(writer.control(batch)).rejects.toThrow(ConflictError);
    expect(await footprint(database)).toBe(before);
    await writer.control([{ event: registered(fresh), version: 1, claim: 'account-name/fresh' }]);
  });

  test('may move on several times within one batch, without a gap and in order', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    const account = publicId();
    const at = (version: number): ControlAppend => ({ event: suspended(account), version });
    await writer.control([{ event: registered(account), version: 1 }, at(2), at(3)]);
    for (const versions of [
      [4, 6],
      [5, 4],
      [4, 4],
      [3, 4],
    ]) {
      await expect(writer.control(versions.map(at))).rejects.toThrow(ConflictError);
    }
    await writer.control([at(4), at(5)]);
    expect((await readStream(writer.client, `account/${account}`)).map(({ version }) => version)).toEqual([
      1, 2, 3, 4, 5,
    ]);
  });

  test('lets exactly one of several writers win that decided on the same version', async () => {
    await using database = await createDatabase();
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    const account = publicId();
    await one.control([{ event: registered(account), version: 1 }]);
    for (let version = 2; version <= 21; version++) {
      const attempts = await Promise.allSettled(
        [one, two, three].map((each) => each.control([{ event: suspended(account), version }])),
      );
      const lost = attempts
        .filter((attempt) => attempt.status === 'rejected')
        .map(({ reason }) => reason as unknown);
      expect(lost).toEqual([expect.any(ConflictError), expect.any(ConflictError)]);
    }
    expect((await readStream(one.client, `account/${account}`)).map(({ version }) => version)).toHaveLength(
      21,
    );
  });
});

describe('a name', () => {
  test('that is taken is refused, and nothing is written', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await writer.control([{ event: registered(), version: 1, claim: 'account-name/first' }]);
    const before = await footprint(database);
    await expect(
      writer.control([{ event: registered(), version: 1, claim: 'account-name/first' }]),
    ).rejects.toThrow(ConflictError);
    expect(await footprint(database)).toBe(before);
    await writer.control([{ event: registered(), version: 1, claim: 'account-name/First' }]);
  });

  test("can't be claimed twice within one batch", async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    const claims = ['account-name/a', 'account-name/a'].map((claim) => ({
      event: registered(),
      version: 1,
      claim,
    }));
    await expect(writer.control(claims)).rejects.toThrow(ConflictError);
    expect(await readLog(database)).toEqual([]);
  });

  test('that many claim at once goes to exactly one, with quotes and commas and braces in it', async () => {
    await using database = await createDatabase();
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    for (const name of ['plain', 'NULL', '"', '\\', '{a,b}', '', ' ', '\u00e9\u20ac\u{1f600}']) {
      const claim = `account-name/${name}`;
      const attempts = await Promise.allSettled(
        [one, two, three].map((each) => each.control([{ event: registered(), version: 1, claim }])),
      );
      expect(attempts.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected']);
    }
    expect(await readLog(database)).toHaveLength(8);
  });
});
