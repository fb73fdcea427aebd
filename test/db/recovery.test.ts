import * as fc from 'fast-check';
import type { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { takeLock } from '#db/postgres/locks.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { evolveRequest, type Request } from '#db/fold/request.ts';
import {
  heartbeat,
  readPeers,
  recoverInstance,
  registerInstance,
  retireInstance,
} from '#db/instances/instance.ts';
import { FencedError } from '#db/log/append.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { accepted, extended, openWriter, readLog, settled, type Writer } from '../support/log/log-writer.ts';
import { connectPatientOwner, countLockWaiters } from '../support/lock-waiters.ts';
import { until } from '../support/relay.ts';

/** Every request of the log as its events make it; throws where one has ended twice or not begun. */
function requestsOf(log: readonly Placed[]): Map<string, Request> {
  const requests = new Map<string, Request>();
  for (const { event } of log) {
    if (!('request' in event) || event.type === 'tokens.counted' || event.type === 'workload.exchanged')
      continue;
    if (event.type !== 'request.rejected' && event.type !== 'usage.adjusted')
      requests.set(event.request, evolveRequest(requests.get(event.request), event));
  }
  return requests;
}

const abandonments = (log: readonly Placed[]) =>
  log.filter(({ event }) => event.type === 'request.abandoned');

/** The state of an instance's row, as an operator sees it. */
const stateOf = (database: TestDatabase, instance: number): Promise<unknown> =>
  ask(
    database.config('auditor'),
    `select concat_ws(' ', case when dead_at is null then 'alive' else 'dead' end,
        case when closed_at is null then 'open' else 'closed' end)
      from daybook.instance where id = ${instance}`,
  );

test('recovery ends each open request of a dead instance once', async () => {
  await using database = await createDatabase();
  await using dead = await openWriter(database);
  await using living = await openWriter(database);
  const open = [
    accepted({ hold_tokens: 111, model: 'a "b", \\c' }),
    accepted({ hold_tokens: Number.MAX_SAFE_INTEGER, account: 'Account2', key: 'Key00002' }),
  ];
  const ended = [accepted(), accepted()];
  const theirs = accepted();
  await dead.append([open[0] as EventOf<'request.accepted'>, ...ended]);
  await living.append([theirs]);
  await dead.append([
    settled(ended[0] as EventOf<'request.accepted'>),
    open[1] as EventOf<'request.accepted'>,
    settled(ended[1] as EventOf<'request.accepted'>),
  ]);
  const before = await readLog(database);

  expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(2);

  const log = await readLog(database);
  expect(log.slice(0, before.length)).toEqual(before);
  const found = log.slice(before.length).map(({ event }) => event);
  const expected = open.map(({ request, account, key, model, route, hold_tokens }) => ({
    type: 'request.abandoned',
    request,
    account,
    key,
    model,
    route,
    end_reason: 'abandoned',
    usage_source: 'estimated',
    hold_tokens,
  }));
  expect(found).toHaveLength(2);
  expect(found).toEqual(expect.arrayContaining(expected));
  const requests = requestsOf(log);
  expect([...open, ...ended].every(({ request }) => requests.get(request)?.end)).toBe(true);
  expect(requests.get(theirs.request)?.end).toBeNull();
  expect(await stateOf(database, dead.instance)).toBe('dead closed');
});

test('recovery charges a call what the last heartbeat reported, at most its reservation', async () => {
  await using database = await createDatabase();
  await using dead = await openWriter(database);
  await using living = await openWriter(database);
  const hold = { hold_tokens: 4_918, hold_cost_nanousd: 9_836 };
  const [reported, exceeded, unreported, json, late] = [
    accepted(hold),
    accepted(hold),
    accepted(hold),
    accepted({ ...hold, sse: false }),
    accepted(hold),
  ] as const;
  await dead.append([reported, exceeded, unreported, json]);
  await heartbeat(dead.client, dead.instance, 1, [
    { request: reported.request, tokens: 548, costNanousd: 1_000 },
    { request: exceeded.request, tokens: 5_000, costNanousd: 10_000 },
  ]);
  await dead.append([late]);

  expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(5);

  const charged = new Map(
    abandonments(await readLog(database)).map(({ event }) => {
      const { request, hold_tokens, hold_cost_nanousd } = event as EventOf<'request.abandoned'>;
      return [request, [hold_tokens, hold_cost_nanousd]];
    }),
  );
  expect(charged.get(reported.request)).toEqual([548, 1_000]);
  expect(charged.get(exceeded.request)).toEqual([4_918, 9_836]);
  // Not in the report: not streamed, under a hard limit, or accepted later.
  expect(charged.get(unreported.request)).toEqual([4_918, 9_836]);
  expect(charged.get(json.request)).toEqual([4_918, 9_836]);
  expect(charged.get(late.request)).toEqual([4_918, 9_836]);
  expect(await ask(database.config('owner'), 'select count(*)::int from daybook.call_progress')).toBe(0);
});

test('recovery charges extended holds, under the terms and in the minute of the admission', async () => {
  await using database = await createDatabase();
  await using dead = await openWriter(database);
  await using living = await openWriter(database);
  const terms = { admitted_minute: 29_000_000, terms_position: 7 };
  const grown = accepted({ hold_tokens: 100, hold_cost_nanousd: 1_000, ...terms });
  const ended = accepted({ hold_tokens: 50, hold_cost_nanousd: 10, ...terms });
  const steady = accepted({
    hold_tokens: 3,
    hold_cost_nanousd: 0,
    admitted_minute: 29_000_001,
    terms_position: 0,
  });
  await dead.append([grown, ended, steady]);
  await living.append([accepted()]);
  await dead.append([extended(grown, { hold_tokens: 200, hold_cost_nanousd: 2_000 }), extended(ended)]);
  await dead.append([
    extended(grown, { hold_tokens: 300, hold_cost_nanousd: 3_000, ...terms }),
    settled(ended),
  ]);

  expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(2);

  const found = abandonments(await readLog(database)).map(({ event }) => event);
  const end = {
    type: 'request.abandoned',
    account: 'Account1',
    key: 'Key00001',
    model: 'm',
    route: '/v1/chat/completions',
    end_reason: 'abandoned',
    usage_source: 'estimated',
  };
  expect(found).toHaveLength(2);
  expect(found).toEqual(
    expect.arrayContaining([
      { ...end, request: grown.request, hold_tokens: 300, hold_cost_nanousd: 3_000, ...terms },
      {
        ...end,
        request: steady.request,
        hold_tokens: 3,
        hold_cost_nanousd: 0,
        admitted_minute: 29_000_001,
        terms_position: 0,
      },
    ]),
  );
});

test('recovery of the leases of very many end users reads each of their allowances a few times', async () => {
  await using database = await createDatabase();
  await using dead = await openWriter(database);
  await using living = await openWriter(database);
  const users = 1_500;
  const endUser = (index: number): string => `User${String(index).padStart(12, '0')}`;
  const { instance } = dead;
  const calls = Array.from({ length: users }, (_, index) =>
    accepted({ end_user: endUser(index), admitted_minute: 1, terms_position: 0 }),
  );
  for (let from = 0; from < users; from += 500) await dead.append(calls.slice(from, from + 500));
  const owner = await connectPatientOwner(database);
  // All of one window, as lifetimes are.
  await owner.query(
    `with made as (
      insert into daybook.allowance (subject, meter, window_kind, window_start, reset_position, cap, ceiling,
          terms_position, since_terms, granted, sharers)
        select 'end_user/Account1/' || u, 1, 6, 0, 0, 100, 100, 0, 0, 10, 1 from unnest($1::text[]) u
        returning id
    )
    insert into daybook.lease (allowance, instance, position, since_terms, granted)
      select id, $2, 0, 0, 10 from made`,
    [calls.map(({ end_user }) => end_user), instance],
  );
  await owner.query('begin');
  await owner.query('update daybook.instance set dead_at = now() where id = $1', [instance]);
  expect(await recoverInstance(owner, instance, living.instance)).toBe(users);
  const { rows } = await owner.query<{ reads: number }>(
    `select (seq_tup_read + idx_tup_fetch)::int as reads from pg_stat_xact_user_tables
      where relid = 'daybook.allowance'::regclass`,
  );
  await owner.query('commit');
  // With other statistics the planner chose the index of windows for each of them.
  await owner.query(
    `set enable_seqscan = off; set enable_bitmapscan = off; set plan_cache_mode = force_generic_plan;
    prepare reset as select min(reset_position) from daybook.allowance
      where window_kind = $1 and window_start = $2`,
  );
  const { rows: plan } = await owner.query<{ 'QUERY PLAN': string }>('explain execute reset(1, null)');
  await owner.end();
  expect(JSON.stringify(plan)).not.toContain('allowance_ended');
  expect(rows[0]?.reads).toBeLessThan(20 * users);
  expect(
    await ask(
      database.config('auditor'),
      `select jsonb_build_array(count(*), min(used), max(used), sum(granted - returned - used), sum(sharers))
        from daybook.allowance`,
    ),
  ).toEqual([users, 1, 1, 0, 0]);
});

test('after recovery, no request of the dead instance is open or has ended twice', async () => {
  await using database = await createDatabase();
  await using living = await openWriter(database);
  const lives = fc.array(
    fc.array(fc.constantFrom('open', 'extended', 'settled', 'settled in the next batch'), {
      minLength: 1,
      maxLength: 6,
    }),
    { maxLength: 5 },
  );
  await fc.assert(
    fc.asyncProperty(lives, async (batches) => {
      await using dead = await openWriter(database);
      let carried: EventOf<'request.accepted'>[] = [];
      let openCount = 0;
      for (const batch of batches) {
        const made = batch.map((fate) => ({ fate, event: accepted() }));
        const now = made.filter(({ fate }) => fate === 'settled');
        const grown = made
          .filter(({ fate }) => fate === 'extended')
          .flatMap(({ event }) => [extended(event), extended(event, { hold_tokens: 4_321 })]);
        await dead.append([
          ...carried.flatMap((each) => [extended(each), settled(each)]),
          ...made.map(({ event }) => event),
          ...now.map(({ event }) => settled(event)),
          ...grown,
        ]);
        carried = made.filter(({ fate }) => fate === 'settled in the next batch').map(({ event }) => event);
        openCount += made.filter(({ fate }) => fate === 'open' || fate === 'extended').length;
      }
      expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(
        openCount + carried.length,
      );
      const log = await readLog(database);
      const requests = requestsOf(log);
      expect([...requests.values()].filter(({ end }) => end === null)).toEqual([]);
      for (const { event } of abandonments(log)) {
        if (event.type === 'request.abandoned')
          expect(event.hold_tokens).toBe(requests.get(event.request)?.holdTokens);
      }
    }),
    { numRuns: 30 },
  );
});

describe('recovering', () => {
  test('is idempotent, also for concurrent recoverers', async () => {
    await using database = await createDatabase();
    await using dead = await openWriter(database);
    await dead.append([accepted(), accepted(), accepted()]);
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    const results = await Promise.all(
      [one, two, three].map(({ client, instance }) => recoverInstance(client, dead.instance, instance)),
    );
    expect(results.toSorted((a, b) => a - b)).toEqual([0, 0, 3]);
    const log = await readLog(database);
    expect(abandonments(log)).toHaveLength(3);
    for (const { client, instance } of [one, two])
      expect(await recoverInstance(client, dead.instance, instance)).toBe(0);
    expect(await readLog(database)).toEqual(log);
  });

  test('fences the instance before it searches the log', async () => {
    await using database = await createDatabase();
    await using dead = await openWriter(database);
    await using living = await openWriter(database);
    const call = accepted();
    await dead.append([call]);
    await recoverInstance(living.client, dead.instance, living.instance);
    await expect(dead.append([settled(call)])).rejects.toThrow(FencedError);
    await expect(dead.append([accepted()])).rejects.toThrow(FencedError);
    expect(await heartbeat(dead.client, dead.instance, 1)).toBeNull();
    expect([...requestsOf(await readLog(database)).values()]).toMatchObject([
      { end: { reason: 'abandoned' } },
    ]);
  });

  test('beside an instance that is still appending leaves every request with one ending', async () => {
    await using database = await createDatabase();
    await using living = await openWriter(database);
    for (let round = 0; round < 5; round++) {
      await using doomed = await openWriter(database);
      const append = async (): Promise<void> => {
        for (;;) {
          const call = accepted();
          await doomed.append([call]);
          await doomed.append([settled(call), accepted()]);
        }
      };
      const appending = append().catch((error: unknown) => error);
      await living.client.query('select pg_sleep($1)', [Math.random() / 20]);
      await recoverInstance(living.client, doomed.instance, living.instance);
      expect(await appending).toBeInstanceOf(FencedError);
      const open = [...requestsOf(await readLog(database)).values()].filter(({ end }) => end === null);
      expect(open).toEqual([]);
    }
  });

  test("waits for a lock of the instance's row without blocking the log", async () => {
    await using database = await createDatabase();
    await using doomed = await openWriter(database);
    await using living = await openWriter(database);
    const spender = await connectPatientOwner(database);
    const fencer = await connectPatientOwner(database);
    await spender.query('begin');
    await spender.query('select from daybook.instance where id = $1 for share', [doomed.instance]);
    const fencing = fencer.query('select daybook.fence_instance($1)', [doomed.instance]);
    await until(
      () => countLockWaiters(living.client),
      (count) => count === 1,
      'the fence to wait',
    );
    // Appends continue, and the holder of the row may take the log's lock after it.
    await living.append([accepted()]);
    await doomed.append([accepted()]);
    await spender.query(takeLock('log'));
    await spender.query('commit');
    await fencing;
    await expect(doomed.append([accepted()])).rejects.toThrow(FencedError);
    expect(await readLog(database)).toHaveLength(2);
    await spender.end();
    await fencer.end();
  });

  test('takes its locks in the order of a concurrent fence, without a deadlock', async () => {
    await using database = await createDatabase();
    await using dead = await openWriter(database);
    await using living = await openWriter(database);
    await dead.append([accepted(), accepted()]);
    const open = (): Promise<Client> => connectPatientOwner(database);
    const [appender, first, second, late] = await Promise.all([open(), open(), open(), open()]);
    const watcher = await database.superuser();
    const blocked = (count: number): Promise<unknown> =>
      until(
        () => countLockWaiters(watcher),
        (found) => found === count,
        `${count} sessions to wait`,
      );
    const row = 'update daybook.instance set name = name where id = $1';
    // The late fence sees the instance alive, and gets the row only when recovery waits for the log.
    await appender.query(`begin; ${takeLock('log')}`);
    await first.query('begin');
    await first.query('update daybook.instance set dead_at = now() where id = $1', [dead.instance]);
    await second.query('begin');
    const holding = second.query(row, [dead.instance]);
    await blocked(1);
    const fencing = late.query('select daybook.fence_instance($1)', [dead.instance]);
    await blocked(2);
    await first.query('commit');
    await holding;
    await blocked(1);
    const recovering = living.client.query<{ count: number }>(
      'select daybook.recover_instance($1, $2) as count',
      [dead.instance, living.instance],
    );
    await blocked(2);
    await second.query('commit');
    await blocked(2);
    await appender.query('commit');
    const [{ rows }] = await Promise.all([recovering, fencing]);
    expect(rows).toEqual([{ count: 2 }]);
    await Promise.all([appender, first, second, late, watcher].map((client) => client.end()));
  });

  test('interrupted after the fence is completed by the next recoverer', async () => {
    await using database = await createDatabase();
    await using dead = await openWriter(database);
    await dead.append([accepted()]);
    await using living = await openWriter(database);
    await living.client.query('select daybook.fence_instance($1)', [dead.instance]);
    expect(await stateOf(database, dead.instance)).toBe('dead open');
    expect(await readPeers(living.client, living.instance)).toMatchObject([
      { id: dead.instance, isDead: true },
    ]);
    expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(1);
    expect(await readPeers(living.client, living.instance)).toEqual([]);
  });

  test('by a dead instance does nothing, and another instance does it', async () => {
    await using database = await createDatabase();
    await using dead = await openWriter(database);
    await dead.append([accepted()]);
    await using fenced = await openWriter(database);
    await using living = await openWriter(database);
    await living.client.query('select daybook.fence_instance($1)', [fenced.instance]);
    await expect(recoverInstance(fenced.client, dead.instance, fenced.instance)).rejects.toThrow();
    expect(abandonments(await readLog(database))).toEqual([]);
    expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(1);
  });

  test('an instance that is idle, unknown or retired abandons no request', async () => {
    await using database = await createDatabase();
    await using living = await openWriter(database);
    await using idle = await openWriter(database);
    await using retired = await openWriter(database);
    await retireInstance(retired.client, retired.instance);
    for (const instance of [idle.instance, retired.instance, 1_000_000]) {
      expect(await recoverInstance(living.client, instance, living.instance)).toBe(0);
    }
    expect(await readLog(database)).toEqual([]);
    expect(await stateOf(database, idle.instance)).toBe('dead closed');
  });
});

describe('the position from which recovery searches', () => {
  const openFrom = (database: TestDatabase, { instance }: Writer): Promise<unknown> =>
    ask(database.config('auditor'), `select open_from::int from daybook.instance where id = ${instance}`);

  test('starts at the head at registration, and only advances with heartbeats', async () => {
    await using database = await createDatabase();
    await using first = await openWriter(database);
    await first.append([accepted(), accepted()]);
    await using second = await openWriter(database);
    expect(await openFrom(database, second)).toBe(3);
    expect(await heartbeat(second.client, second.instance, 9)).toBeInstanceOf(Date);
    await heartbeat(second.client, second.instance, 4);
    await heartbeat(second.client, second.instance, 0);
    expect(await openFrom(database, second)).toBe(9);
  });

  test('is exact: earlier requests count as ended, the one at the position is found', async () => {
    await using database = await createDatabase();
    await using dead = await openWriter(database);
    await using living = await openWriter(database);
    const calls = [accepted(), accepted(), accepted()];
    await dead.append(calls);
    await heartbeat(dead.client, dead.instance, 2);
    expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(2);
    const found = abandonments(await readLog(database)).map(
      ({ event }) => 'request' in event && event.request,
    );
    expect(new Set(found)).toEqual(new Set(calls.slice(1).map(({ request }) => request)));
  });

  test('does not hide later endings, nor confuse those of other instances', async () => {
    await using database = await createDatabase();
    await using dead = await openWriter(database);
    await using living = await openWriter(database);
    const [first, second] = [accepted(), accepted()];
    await dead.append([first, second]);
    for (let batch = 0; batch < 20; batch++) {
      const call = accepted();
      await living.append([call, settled(call)]);
    }
    await dead.append([settled(first)]);
    expect(await recoverInstance(living.client, dead.instance, living.instance)).toBe(1);
    expect(abandonments(await readLog(database))).toMatchObject([
      { event: { request: second.request }, instance: living.instance },
    ]);
  });
});

test('instance numbers are never reused', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  const numbers = [];
  for (let round = 0; round < 5; round++) {
    const number = await registerInstance(writer.client, 'brief');
    numbers.push(number);
    await retireInstance(writer.client, number);
  }
  expect(new Set([writer.instance, ...numbers]).size).toBe(6);
  expect(numbers).toEqual(numbers.toSorted((one, other) => one - other));
});
