import { describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { backends, openAppender, type Outcome, outcomeOf, tally } from '../../support/log/appended.ts';
import { createDatabase } from '../../support/database.ts';
import { accepted, readLog, settled } from '../../support/log/log-writer.ts';
import { holdLog, until } from '../../support/relay.ts';

type Accepted = EventOf<'request.accepted'>;

/** What must stand in the log for an outcome, once the store is back and the call was settled. */
const WRITTEN: Record<Outcome, { accepted: number; settled: number } | undefined> = {
  durable: { accepted: 1, settled: 1 },
  'in doubt': { accepted: 1, settled: 1 },
  refused: undefined,
};

describe('appender sessions cut at any moment', () => {
  test('no event is lost or duplicated: in-doubt requests are settled, refused ones absent', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender, superuser } = appending;
    const outcomes = new Map<string, Outcome>();
    let cuts = 0;
    let calling = true;

    const call = async (): Promise<void> => {
      const event = accepted();
      const outcome = await outcomeOf(appender, event);
      outcomes.set(event.request, outcome);
      if (outcome !== 'refused') appender.settle(settled(event));
      // The next call of a client that was refused comes a little later.
      else await new Promise((resolve) => setTimeout(resolve, 5));
    };
    const client = async (): Promise<void> => {
      while (calling) await call();
    };
    // A busy machine may not get one append done between two cuts: then the pauses grow until it has.
    const seen = (): Set<Outcome> => new Set(outcomes.values());
    const disturb = async (): Promise<void> => {
      for (let pauseSecs = 1 / 25; cuts < 25 || (seen().size < 3 && cuts < 100);) {
        for (const pid of await backends(superuser)) {
          await superuser.query('select pg_terminate_backend($1)', [pid]);
          cuts++;
        }
        if (cuts >= 25) pauseSecs = Math.min(1, pauseSecs * 1.5);
        await superuser.query('select pg_sleep($1)', [Math.random() * pauseSecs]);
      }
      calling = false;
    };
    await Promise.all([...Array.from({ length: 40 }, client), disturb()]);
    await until(
      () => appender.isSettled,
      (is) => is,
      'the last ending',
    );

    const counts = tally(await readLog(database));
    for (const [request, outcome] of outcomes) {
      expect({ request, outcome, ...counts.get(request) }).toEqual({ request, outcome, ...WRITTEN[outcome] });
    }
    expect(counts.size).toBe([...outcomes.values()].filter((outcome) => outcome !== 'refused').length);
    expect(seen()).toEqual(new Set<Outcome>(['durable', 'in doubt', 'refused']));
    expect(new Set(appending.problems)).toEqual(new Set(['append_failed']));
  });

  test('cut between commit and response: the request is in doubt, and in the log once', async () => {
    await using database = await createDatabase();
    // The answer to the first append is lost on its way.
    let lost = false;
    const connect = async () => {
      const client = await connectRelay(database);
      const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
      client.query = (async (...args: unknown[]) => {
        const answer = await query(...args);
        if (lost) return answer;
        lost = true;
        throw new Error('Connection terminated unexpectedly');
      }) as unknown as typeof client.query;
      return client;
    };
    await using appending = await openAppender(database, { connect });
    const call: Accepted = accepted();
    expect(await outcomeOf(appending.appender, call)).toBe('in doubt');
    appending.appender.settle(settled(call));
    await until(
      () => appending.appender.isSettled,
      (is) => is,
      'the ending',
    );
    expect((await readLog(database)).map(({ event }) => event)).toEqual([call, settled(call)]);
    expect(appending.appender.mode).toBe('up');
  });
});

describe('a frozen database', () => {
  test('idle session: requests are refused, not queued, and the log is intact after the thaw', async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender, superuser } = appending;
    const before = accepted();
    await appender.accept(before);
    const [pid] = await backends(superuser);
    process.kill(pid as number, 'SIGSTOP');
    const call = accepted();
    try {
      expect(await outcomeOf(appender, call)).toBe('in doubt');
      appender.settle(settled(call));
      appender.settle(settled(before));
      // A new session writes it, while what the frozen one was sent is still to come.
      await until(
        () => appender.mode,
        (mode) => mode === 'up',
        'the return',
      );
    } finally {
      process.kill(pid as number, 'SIGCONT');
    }
    await until(
      () => backends(superuser),
      (pids) => !pids.includes(pid as number),
      'the end of the frozen session',
    );
    await until(
      () => appender.isSettled,
      (is) => is,
      'the endings',
    );
    const counts = tally(await readLog(database));
    expect([before, call].map(({ request }) => counts.get(request))).toEqual([
      WRITTEN.durable,
      WRITTEN.durable,
    ]);
  });

  test("session with the log's lock: requests are refused, and the log is intact afterwards", async () => {
    await using database = await createDatabase();
    await using appending = await openAppender(database);
    const { appender, superuser } = appending;
    const open = accepted();
    await appender.accept(open);
    const held = await holdLog(database);
    const first = accepted();
    const outcome = outcomeOf(appender, first);
    await held.awaited();
    const [pid] = await backends(superuser);
    process.kill(pid as number, 'SIGSTOP');
    const refused = accepted();
    try {
      // The lock goes to the frozen one, and everybody else waits for it.
      await held.release();
      expect(await outcome).toBe('in doubt');
      appender.settle(settled(first));
      appender.settle(settled(open));
      expect(await outcomeOf(appender, refused)).toBe('refused');
      expect(appender.mode).toBe('down');
    } finally {
      process.kill(pid as number, 'SIGCONT');
    }
    await until(
      () => appender.isSettled,
      (is) => is,
      'the endings',
    );
    const counts = tally(await readLog(database));
    expect([open, first, refused].map(({ request }) => counts.get(request))).toEqual([
      WRITTEN.durable,
      WRITTEN['in doubt'],
      WRITTEN.refused,
    ]);
    expect(await outcomeOf(appender, accepted())).toBe('durable');
  });
});

describe('an unreachable database', () => {
  test('requests are refused at once; endings are buffered and written first on reconnect', async () => {
    await using database = await createDatabase();
    let away = false;
    const connect = () => (away ? Promise.reject(new Error('connect ECONNREFUSED')) : connectRelay(database));
    await using appending = await openAppender(database, { connect });
    const { appender, superuser } = appending;
    const open = [accepted(), accepted(), accepted()];
    for (const call of open) await appender.accept(call);
    away = true;
    for (const pid of await backends(superuser))
      await superuser.query('select pg_terminate_backend($1)', [pid]);
    const doubtful = accepted();
    expect(await outcomeOf(appender, doubtful)).toBe('in doubt');
    for (const call of [doubtful, ...open]) appender.settle(settled(call));
    const refused = [accepted(), accepted()];
    for (const call of refused) expect(await outcomeOf(appender, call)).toBe('refused');
    expect(appender.mode).toBe('down');

    away = false;
    await until(
      () => appender.mode,
      (mode) => mode === 'up',
      'the return',
    );
    const next = accepted();
    expect(await outcomeOf(appender, next)).toBe('durable');
    const events = (await readLog(database)).map(({ event }) => event);
    expect(events).toEqual([...open, doubtful, ...[doubtful, ...open].map((call) => settled(call)), next]);
  });
});
