import * as fc from 'fast-check';
import type { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { follow, type Follower, type FollowOptions } from '#db/log/follow.ts';
import { GapError, PAGE_ROWS, readHead, UnreadableEventError } from '#db/log/read.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyRequestEvent } from '../../support/log/arbitrary-event.ts';
import {
  accepted,
  connectAs,
  openWriter,
  readLog,
  registered,
  type Writer,
} from '../../support/log/log-writer.ts';
import { newerLine } from '../../support/log/newer-event.ts';
import { until } from '../../support/relay.ts';

/** So long that only a notification can wake a follower within a test. */
const NEVER_MS = 24 * 60 * 60 * 1000;
const NAME = 'the follower of this test';

type Watched = AsyncDisposable & {
  follower: Follower;
  seen: Placed[];
  pages: Placed[][];
  heads: number[];
  errors: unknown[];
};

/** A follower that keeps all that it is given. */
function watch(database: TestDatabase, options: Partial<FollowOptions> = {}): Watched {
  const watched = {
    seen: [] as Placed[],
    pages: [] as Placed[][],
    heads: [] as number[],
    errors: [] as unknown[],
  };
  const follower = follow({
    config: { ...database.config('relay'), application_name: NAME },
    scope: 'all',
    after: 0,
    onPage: (page) => {
      watched.seen.push(...page);
      watched.pages.push(page);
    },
    onCurrent: (head) => watched.heads.push(head),
    onError: (error) => watched.errors.push(error),
    ...options,
  });
  return { follower, ...watched, [Symbol.asyncDispose]: () => follower.close() };
}

const positions = (log: readonly Placed[]): number[] => log.map(({ position }) => position);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
const sample = (count: number) => fc.sample(anyRequestEvent, count);
const reaches = (watched: Watched, position: number) =>
  until(
    () => watched.follower.position,
    (at) => at === position,
    'the follower',
  );

/** Cuts the connection of the follower, when it has one. */
async function cut(superuser: Client): Promise<boolean> {
  const { rowCount } = await superuser.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = $1 and datname = current_database()`,
    [NAME],
  );
  return (rowCount ?? 0) > 0;
}

describe('a follower of all events', () => {
  test('receives each event once and in order, with three writers and repeated disconnects', async () => {
    await using database = await createDatabase();
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    await using watched = watch(database, { pauseMs: 0 });
    const superuser = await database.superuser();

    let writing = true;
    let cuts = 0;
    const random = (max: number): number => Math.floor(Math.random() * max);
    const write = async (writer: Writer): Promise<void> => {
      while (writing) {
        await writer.append(sample(1 + random(20)));
        if (random(4) === 0) await writer.control([{ event: registered(), version: 1 }]);
      }
    };
    const disturb = async (): Promise<void> => {
      for (; cuts < 15; await superuser.query('select pg_sleep($1)', [Math.random() / 10]))
        if (await cut(superuser)) cuts++;
      writing = false;
    };
    await Promise.all([write(one), write(two), write(three), disturb()]);

    const head = await readHead(superuser);
    await superuser.end();
    await reaches(watched, head);
    expect(positions(watched.seen)).toEqual(upTo(head));
    expect(watched.seen).toEqual(await readLog(database));
    expect(watched.errors.length).toBeGreaterThan(0);
  });

  test('starts after the given position, and repeats no event', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    for (let batch = 0; batch < 10; batch++) await writer.append(sample(3));
    await using watched = watch(database, { after: 17 });
    await reaches(watched, 30);
    expect(positions(watched.seen)).toEqual(upTo(30).slice(17));
    expect(watched.follower.position).toBe(30);
  });

  test('reads a log longer than a page page by page, one at a time', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    const event = accepted();
    const count = 2 * PAGE_ROWS + 10;
    await writer.append(Array.from({ length: count }, () => event));
    let handling = 0;
    const sizes: number[] = [];
    await using watched = watch(database, {
      onPage: async (page) => {
        expect(handling++).toBe(0);
        await readHead(writer.client);
        sizes.push(page.length);
        handling--;
      },
    });
    await reaches(watched, count);
    expect(sizes).toEqual([PAGE_ROWS, PAGE_ROWS, 10]);
  });

  test('is woken by an append of either kind, without waiting for the poll interval', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await using watched = watch(database, { pollMs: NEVER_MS });
    await until(
      () => watched.heads.length,
      (count) => count > 0,
      'the first look',
    );
    await writer.append([accepted()]);
    await reaches(watched, 1);
    await writer.control([{ event: registered(), version: 1 }]);
    await reaches(watched, 2);
  });

  test('reports the position up to which it is current, for an empty log too', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await using watched = watch(database);
    await until(
      () => watched.heads.length,
      (count) => count > 0,
      'the first look',
    );
    expect(watched.heads[0]).toBe(0);
    await writer.append(sample(4));
    await until(
      () => watched.heads.at(-1),
      (head) => head === 4,
      'the next look',
    );
    expect(positions(watched.seen)).toEqual(upTo(4));
  });

  test('is given a page again after its handler failed, before any later page', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await writer.append(sample(2));
    const attempts: number[][] = [];
    await using watched = watch(database, {
      onPage: (page) => {
        attempts.push(positions(page));
        if (attempts.length <= 2) throw new Error('not now');
      },
    });
    await reaches(watched, 2);
    expect(attempts).toEqual([
      [1, 2],
      [1, 2],
      [1, 2],
    ]);
    expect(watched.errors).toEqual([new Error('not now'), new Error('not now')]);
  });
});

describe('a follower of control events', () => {
  test('receives only control events, in order, and still knows the head', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await using watched = watch(database, { scope: 'control' });
    await writer.append(sample(5));
    await writer.control([{ event: registered(), version: 1 }]);
    await writer.append(sample(5));
    await writer.control([
      { event: registered(), version: 1 },
      { event: registered(), version: 1 },
    ]);
    await writer.append(sample(5));
    await reaches(watched, 13);
    expect(positions(watched.seen)).toEqual([6, 12, 13]);
    await until(
      () => watched.heads.at(-1),
      (head) => head === 18,
      'the head',
    );
  });

  test('is woken by control events and not by requests', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await using watched = watch(database, { scope: 'control', pollMs: NEVER_MS, pauseMs: 0 });
    await until(
      () => watched.heads.length,
      (count) => count > 0,
      'the first look',
    );
    const looks = watched.heads.length;
    for (let batch = 0; batch < 20; batch++) await writer.append(sample(1));
    await writer.control([{ event: registered(), version: 1 }]);
    await reaches(watched, 21);
    expect(watched.heads.length).toBeLessThanOrEqual(looks + 1);
  });
});

test('a notification on another channel is received and does not trigger a read of the log', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const heard: string[] = [];
  await using watched = watch(database, {
    pollMs: NEVER_MS,
    channels: { daybook_other: (payload) => heard.push(payload) },
  });
  await until(
    () => watched.heads.length,
    (looks) => looks === 1,
    'the first look',
  );
  await writer.client.query("select pg_notify('daybook_other', 'one'), pg_notify('daybook_other', 'two')");
  await until(
    () => heard.length,
    (count) => count === 2,
    'what is said',
  );
  expect(heard).toEqual(['one', 'two']);
  expect(watched.heads).toHaveLength(1);
});

describe('a damaged log', () => {
  /** Appends an event of a type that no vocabulary has. */
  const appendUnknown = (writer: Writer): Promise<unknown> =>
    writer.client.query('select daybook.append_control(0::smallint, $1, 99, array[$2], array[null::text])', [
      writer.instance,
      newerLine({ type: 99, stream: 'odd/one', account: 'Account1' }, 1),
    ]);

  test.each(['all', 'control'] as const)(
    'an unknown event type stops a follower of %s there, which reports it and retries',
    async (scope) => {
      await using database = await createDatabase();
      await using writer = await openWriter(database);
      await writer.control([{ event: registered(), version: 1 }]);
      await using watched = watch(database, { scope });
      await reaches(watched, 1);
      await appendUnknown(writer);
      await writer.control([{ event: registered(), version: 1 }]);
      await until(
        () => watched.errors.length,
        (count) => count >= 3,
        'the attempts',
      );
      expect(
        watched.errors.every((error) => error instanceof UnreadableEventError && error.position === 2),
      ).toBe(true);
      expect(positions(watched.seen)).toEqual([1]);
      // It never claims to be current beyond what it could read.
      expect(Math.max(...watched.heads)).toBe(1);
    },
  );

  test('an unknown event type is reported once and skipped by a follower with onUnreadable', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await writer.control([{ event: registered(), version: 1 }]);
    await appendUnknown(writer);
    await writer.append(sample(2));
    const unreadable: number[] = [];
    await using watched = watch(database, { onUnreadable: ({ position }) => unreadable.push(position) });
    await reaches(watched, 4);
    expect(positions(watched.seen)).toEqual([1, 3, 4]);
    expect(unreadable).toEqual([2]);
    expect(watched.errors).toEqual([]);
  });

  test.each([
    ['batch', 'delete from daybook.log where last_position = 4'],
    [
      'line',
      String.raw`update daybook.log set events = regexp_replace(events, '\n.*', '') where last_position = 4`,
    ],
  ])('a missing %s stops a follower of all events before the gap', async (what, damage) => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    for (const size of [2, 2, 1]) await writer.append(sample(size));
    const owner = await connectAs(database, 'owner');
    await owner.query('alter table daybook.log disable trigger append_only');
    await owner.query(damage);
    await owner.end();
    await using watched = watch(database);
    await until(
      () => watched.errors.length,
      (count) => count >= 2,
      'the attempts',
    );
    expect(watched.errors[0]).toEqual(new GapError(what === 'batch' ? 3 : 4));
    expect(watched.seen).toEqual([]);
  });
});

describe('closing', () => {
  test('finishes the current page, delivers no other, and closes the connection', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    await writer.append(sample(1));
    const started = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    let handled = 0;
    const watched = watch(database, {
      onPage: async () => {
        started.resolve();
        await finish.promise;
        handled++;
      },
    });
    await started.promise;
    await writer.append(sample(1));
    const closing = watched.follower.close();
    const closed = closing.then(() => true);
    expect(await Promise.race([closed, readHead(writer.client).then(() => false)])).toBe(false);
    finish.resolve();
    await closing;
    expect(handled).toBe(1);
    expect(watched.errors).toEqual([]);
  });

  test('does not wait for an unreachable database', async () => {
    const nowhere = { host: '127.0.0.1', port: 1, connectionTimeoutMillis: 100 };
    const errors: unknown[] = [];
    const failed = Promise.withResolvers<void>();
    const follower = follow({
      config: nowhere,
      scope: 'all',
      after: 5,
      onPage: () => undefined,
      onError: (error) => {
        errors.push(error);
        failed.resolve();
      },
    });
    await failed.promise;
    await follower.close();
    expect(follower.position).toBe(5);
    expect(errors).toMatchObject([{ code: 'ECONNREFUSED' }]);
  });
});
