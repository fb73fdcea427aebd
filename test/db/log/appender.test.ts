import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { RequestEvent } from '#db/events/events.ts';
import { closeClient, connectAs } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { Appender } from '#server/instance/appender.ts';
import {
  ACCEPT_QUEUE_MAX,
  APPEND_BATCH_MAX,
  NOTIFY_AT_ONCE,
  NOTIFY_EVERY_MS,
  OVERLAPPED_LINGER_MS,
  SETTLE_LINGER_MAX_MS,
  SETTLE_LINGER_MS,
  SETTLE_QUEUE_MAX,
} from '#server/instance/bounds.ts';
import { backends, openAppender, outcomeOf, tally } from '../../support/log/appended.ts';
import { ask, createDatabase, type TestDatabase } from '../../support/database.ts';
import { accepted, readLog, settled } from '../../support/log/log-writer.ts';
import { holdLog, until } from '../../support/relay.ts';

const batchCount = (database: TestDatabase): Promise<unknown> =>
  ask(database.config('auditor'), 'select count(*)::int from daybook.log_batch');
/** When a batch was written, the appender rests from the next turn on. */
const batchEnd = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const many = (count: number) => Array.from({ length: count }, () => accepted());

describe('group commit', () => {
  test('writes what many callers hand in at once as one batch, up to the bound', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const calls = many(APPEND_BATCH_MAX + 1);
    await Promise.all(calls.map((call) => appending.appender.accept(call)));
    expect(await batchCount(database)).toBe(2);
    expect((await readLog(database)).map(({ event }) => event)).toEqual(calls);
  });

  test('gathers for the next batch what comes while one is under way', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const held = await holdLog(database);
    const first = appending.appender.accept(accepted());
    await held.awaited();
    const rest = many(300).map((call) => appending.appender.accept(call));
    await held.release();
    await Promise.all([first, ...rest]);
    expect(await batchCount(database)).toBe(2);
  });

  test('notifies readers at once, in steady use four times a second, and of its last batch', async () => {
    await using database = await createDatabase();
    const reader = await connectAs(database, 'relay');
    try {
      /** The position that each names; a late one names none. */
      const notices: string[] = [];
      reader.on('notification', ({ payload = '' }) => notices.push(payload));
      await reader.query('listen daybook_log');
      const startedMs = performance.now();
      await using appending = await openAppender(database);
      await appending.appender.accept(accepted());
      await vi.waitUntil(() => notices.length === 1, { timeout: 60_000 });
      for (let n = 0; n < 50; n++) await appending.appender.accept(accepted());
      const elapsedMs = performance.now() - startedMs;
      expect(notices.length).toBeLessThanOrEqual(NOTIFY_AT_ONCE + elapsedMs / NOTIFY_EVERY_MS);
      await appending.appender.close(1_000);
      await vi.waitUntil(() => ['', String(appending.appender.head)].includes(notices.at(-1) ?? '-'), {
        timeout: 60_000,
      });
    } finally {
      await closeClient(reader);
    }
  });

  test('keeps endings, which nobody waits for, for the company of what comes next', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const [one, other] = [accepted(), accepted()];
    await appending.appender.accept(one);
    appending.appender.settle(settled(one));
    await appending.appender.accept(other);
    expect((await readLog(database)).map(({ event }) => event)).toEqual([one, settled(one), other]);
    expect(await batchCount(database)).toBe(2);
  });

  test('keeps an accepted event whose call is under way until its reply begins', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender } = appending;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const [one, other, late] = [accepted(), accepted(), accepted()];
    const first = appender.accept(one, true);
    expect(await batchCount(database)).toBe(0);
    const second = appender.accept(other, true);
    appender.flush();
    await Promise.all([first, second]);
    expect(await batchCount(database)).toBe(1);
    // Without a reply too, in the end.
    const third = appender.accept(late, true);
    vi.advanceTimersByTime(OVERLAPPED_LINGER_MS);
    await third;
    expect((await readLog(database)).map(({ event }) => event)).toEqual([one, other, late]);
  });

  test('keeps an ending whose units no call needs longer, until one whose units are scarce', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender } = appending;
    const [one, other] = [accepted(), accepted()];
    await Promise.all([appender.accept(one), appender.accept(other)]);
    await batchEnd();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    appender.settle(settled(one), undefined, true);
    vi.advanceTimersByTime(SETTLE_LINGER_MAX_MS - 1);
    expect(await batchCount(database)).toBe(1);
    const written = Promise.withResolvers<void>();
    appender.settle(settled(other), written.resolve);
    vi.advanceTimersByTime(SETTLE_LINGER_MS);
    await written.promise;
    await batchEnd();
    expect(await batchCount(database)).toBe(2);
    // Without another ending, too.
    const third = accepted();
    await appender.accept(third);
    await batchEnd();
    const late = Promise.withResolvers<void>();
    appender.settle(settled(third), late.resolve, true);
    vi.advanceTimersByTime(SETTLE_LINGER_MAX_MS);
    await late.promise;
  });

  test('writes a lone ending too, without being asked again', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const call = accepted();
    await appending.appender.accept(call);
    appending.appender.settle(settled(call));
    await until(
      () => readLog(database),
      (log) => log.length === 2,
      'the ending',
    );
    expect(appending.appender.isSettled).toBe(true);
  });

  test('keeps the order of the calls, whatever comes when', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender } = appending;
    let written = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('accept', 'linger', 'flush', 'settle', 'wait', 'turn'), { maxLength: 60 }),
        async (steps) => {
          const order: RequestEvent[] = [];
          const open: ReturnType<typeof accepted>[] = [];
          const waits: Promise<void>[] = [];
          for (const step of steps) {
            if (step === 'wait') await Promise.all(waits.splice(0));
            if (step === 'turn') await new Promise((resolve) => setImmediate(resolve));
            const call = step === 'settle' ? open.shift() : accepted();
            if (step === 'flush') appender.flush();
            else if ((step === 'accept' || step === 'linger') && call) {
              order.push(call);
              open.push(call);
              waits.push(appender.accept(call, step === 'linger'));
            } else if (step === 'settle' && call) {
              order.push(settled(call));
              appender.settle(settled(call));
            }
          }
          const last = accepted();
          await appender.accept(last);
          const log = await readLog(database);
          expect(log.slice(written).map(({ event }) => event)).toEqual([...order, last]);
          written = log.length;
        },
      ),
      { numRuns: 40 },
    );
  });
});

test('where its open calls begin is never after the oldest of them', async () => {
  await using database = await createDatabase();
  await using appending = await openAppender(database);
  const { appender } = appending;
  const [one, two, three] = [accepted(), accepted(), accepted()];
  await Promise.all([one, two, three].map((call) => appender.accept(call)));
  expect(await batchCount(database)).toBe(1);
  expect(appender.openFrom).toBe(1);
  appender.settle(settled(two));
  await appender.accept(accepted());
  expect(appender.openFrom).toBe(1);
  appender.settle(settled(one));
  await appender.accept(accepted());
  expect(appender.openFrom).toBe(3);
});

describe('a bound', () => {
  test('of waiting calls refuses the one too many at once, and it is never written', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const calls = many(ACCEPT_QUEUE_MAX + 3);
    const outcomes = await Promise.all(calls.map((call) => outcomeOf(appending.appender, call)));
    expect(outcomes.slice(0, ACCEPT_QUEUE_MAX).every((outcome) => outcome === 'durable')).toBe(true);
    expect(outcomes.slice(ACCEPT_QUEUE_MAX)).toEqual(['refused', 'refused', 'refused']);
    expect(await readLog(database)).toHaveLength(ACCEPT_QUEUE_MAX);
    expect(await outcomeOf(appending.appender, accepted())).toBe('durable');
  });

  test('of waiting endings drops the one too many and says so', async () => {
    const problems: string[] = [];
    const appender = new Appender({
      connect: () => new Promise(() => undefined),
      instance: 1,
      head: 0,
      onFenced: () => undefined,
      onError: (problem) => problems.push(problem),
    });
    const ending = settled(accepted());
    for (let count = 0; count <= SETTLE_QUEUE_MAX; count++) appender.settle(ending);
    expect(problems).toEqual(['ending_dropped']);
    await appender.close(0);
  });
});

describe('one bad event', () => {
  test.each<[string, RequestEvent]>([
    ['a status beyond what its column holds', settled(accepted(), { status: 40_000 })],
    ['tokens beyond what their column holds', settled(accepted(), { output_tokens: 2 ** 31 })],
    ["a name that the database can't store", settled(accepted(), { model: 'a\0b' })],
  ])('does not cost its neighbours: %s', async (_, bad) => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender } = appending;
    const [before, after] = [many(3), many(3)];
    const waits = before.map((call) => outcomeOf(appender, call));
    if (bad.type === 'request.settled') appender.settle(bad);
    waits.push(...after.map((call) => outcomeOf(appender, call)));
    expect(await Promise.all(waits)).toEqual(Array.from({ length: 6 }, () => 'durable'));
    expect((await readLog(database)).map(({ event }) => event)).toEqual([...before, ...after]);
    expect(appending.problems).toEqual(['event_refused']);
    expect(appender.mode).toBe('up');
  });

  test('that somebody waits for is refused, and is not in doubt', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const bad = [
      accepted({ retry_count: 40_000 }),
      accepted({ model: 'a\0b' }),
      accepted({ body_bytes: 2 ** 31 }),
    ];
    expect(await Promise.all(bad.map((call) => outcomeOf(appending.appender, call)))).toEqual([
      'refused',
      'refused',
      'refused',
    ]);
    expect(await outcomeOf(appending.appender, accepted())).toBe('durable');
    expect(await readLog(database)).toHaveLength(1);
    expect(appending.appender.openFrom).toBe(1);
  });

  test('that waits alone when the store comes back does not keep it away', async () => {
    await using database = await createDatabase();
    let away = true;
    const connect = () => (away ? Promise.reject(new Error('away')) : connectRelay(database));
    await using appending = await openAppender(database, { connect });
    appending.appender.settle(settled(accepted(), { model: 'a\0b' }));
    await until(
      () => appending.appender.mode,
      (mode) => mode === 'down',
      'the outage',
    );
    away = false;
    await until(
      () => appending.appender.mode,
      (mode) => mode === 'up',
      'the return',
    );
    expect(await outcomeOf(appending.appender, accepted())).toBe('durable');
    expect(appending.problems.at(-1)).toBe('event_refused');
  });
});

describe('an instance that was declared dead', () => {
  test('is told once, and nothing of what it handed in is written or left waiting', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender, instance, superuser } = appending;
    const open = accepted();
    await appender.accept(open);
    const held = await holdLog(database);
    const waiting = many(2).map((call) => outcomeOf(appender, call));
    await held.awaited();
    waiting.push(...many(2).map((call) => outcomeOf(appender, call)));
    appender.settle(settled(open));
    await superuser.query('update daybook.instance set dead_at = now() where id = $1', [instance]);
    await held.release();
    expect(await Promise.all(waiting)).toEqual(['refused', 'refused', 'refused', 'refused']);
    expect(await outcomeOf(appender, accepted())).toBe('refused');
    appender.settle(settled(open));
    expect({ mode: appender.mode, fencings: appending.fencings() }).toEqual({ mode: 'fenced', fencings: 1 });
    expect((await readLog(database)).map(({ event }) => event)).toEqual([open]);
  });
});

describe('closing', () => {
  test('writes all that was handed in before, and takes nothing after', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender } = appending;
    const calls = many(5);
    const waits = calls.map((call) => outcomeOf(appender, call));
    for (const call of calls) appender.settle(settled(call));
    await appender.close(10_000);
    expect(await Promise.all(waits)).toEqual(calls.map(() => 'durable'));
    expect([...tally(await readLog(database)).values()]).toEqual(
      calls.map(() => ({ accepted: 1, settled: 1 })),
    );
    expect(await outcomeOf(appender, accepted())).toBe('refused');
    expect(await backends(appending.superuser)).toEqual([]);
  });

  test('leaves nobody waiting and no session behind when the store does not answer', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender, superuser } = appending;
    const open = accepted();
    await appender.accept(open);
    const held = await holdLog(database);
    const first = outcomeOf(appender, accepted());
    await held.awaited();
    const second = outcomeOf(appender, accepted());
    appender.settle(settled(open));
    await appender.close(0);
    expect(await Promise.all([first, second])).toEqual(['in doubt', 'refused']);
    expect(appender.mode).toBe('closed');
    // What it accepted has no ending, so it is not to be retired but to be recovered.
    expect(appender.isSettled).toBe(false);
    await held.release();
    await until(
      () => backends(superuser),
      (pids) => pids.length === 0,
      'the end of its sessions',
    );
  });

  test('while it connects ends that connection too, and writes nothing more', async () => {
    await using database = await createDatabase();
    const gate = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const connect = async () => {
      asked.resolve();
      await gate.promise;
      return connectRelay(database);
    };
    await using appending = await openAppender(database, { connect });
    const waiting = outcomeOf(appending.appender, accepted());
    await asked.promise;
    await appending.appender.close(0);
    gate.resolve();
    expect(await waiting).toBe('in doubt');
    await until(
      () => backends(appending.superuser),
      (pids) => pids.length === 0,
      'the end of its sessions',
    );
    expect(await readLog(database)).toEqual([]);
  });
});
