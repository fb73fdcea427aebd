import { DatabaseError, type Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { adjustQuotas } from '#db/limits/adjustments.ts';
import { appendCorrections } from '#db/limits/corrections.ts';
import { exchange } from '#db/limits/leases.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import { uuidv7 } from '#db/ids.ts';
import { acceptBatch, type BatchLine, type NewBatch, settleBatch } from '#db/stored/batches.ts';
import { beginBackground, settleBackground } from '#db/stored/background.ts';
import { heartbeat, registerInstance } from '#db/instances/instance.ts';
import { appendRequests } from '#db/log/append.ts';
import { isLockTaken, takeLockNow } from '#db/postgres/locks.ts';
import { isRolledBack, retryTransaction } from '#db/postgres/retry-transaction.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { connectPatientOwner, countLockWaiters } from '../support/lock-waiters.ts';
import { accepted, connectAs } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';

/**
 * The lock order: an instance's row, allowances by their identity, the log. Each pair of functions that take
 * more than one of these locks runs concurrently, about the same instance and the same allowances.
 */

const ROUNDS = 8;

let database: TestDatabase;
let clients: [Client, Client, Client, Client];

beforeAll(async () => {
  database = await createDatabase();
  clients = [
    await connectAs(database, 'relay'),
    await connectAs(database, 'relay'),
    await connectPatientOwner(database),
    await connectPatientOwner(database),
  ];
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.end()));
  await database[Symbol.asyncDispose]();
});

const lease = (start: number) => ({
  subject: 'account/Account1',
  meter: 'tokens' as const,
  window: 'day' as const,
  start,
  reset: 0,
  cap: 1_000_000,
  terms: 1,
  since: 0,
  returned: 0,
  used: 0,
  overdrawn: 0,
  held: 0,
  strict: false,
  closes: false,
  stock: 100,
});

const TODAY = windowStart('day', minuteOf(Date.now()));
const adjusted = (account: number) => ({
  version: 1,
  event: {
    type: 'quota.adjusted' as const,
    account: String(account).padStart(8, '0'),
    meter: 'tokens' as const,
    amount: 1,
    window: 'day' as const,
    window_start: 0,
    reset_position: 0,
    reason: 'test',
    actor: 'test',
  },
});

/** Of a request that was charged to the window of the day. */
const corrected = (): EventOf<'usage.adjusted'> => {
  const { request, account, key, model, route } = accepted();
  return {
    ...{ type: 'usage.adjusted', request, account, key, model, route },
    ...{ end_reason: 'completed', admitted_minute: minuteOf(Date.now()), input_tokens: 1 },
    ...{ reference: 'test', reason: 'test', adjusted_by: 'command-line' },
  };
};

/** A batch of one line. */
function batchLine(): { batch: NewBatch; line: BatchLine; event: EventOf<'request.accepted'> } {
  const event = accepted();
  const { request, account, key, model } = event;
  const batch = uuidv7();
  return {
    batch: { batch, account, key, upstream: 'one', credential: null, input_file: 'file-1', facts: '{}' },
    line: {
      ...{ custom_id: '0'.repeat(64), request, model, body_bytes: 1, prompt_tokens: 1, output_limit: null },
      ...{ choices: 1, hold_tokens: 10, hold_cost_nanousd: null },
    },
    event: { ...event, batch, admitted_minute: minuteOf(Date.now()) },
  };
}

/** What each function does to an instance. Statements that a fenced instance may not run fail with DB001. */
const OPERATIONS: Record<string, (client: Client, instance: number, other: number) => Promise<unknown>> = {
  heartbeat: (client, instance) =>
    heartbeat(client, instance, 1, [{ request: accepted().request, tokens: 1, costNanousd: 0 }]),
  append: (client, instance, other) => appendRequests(client, instance, other, [accepted()]),
  exchange: (client, instance) =>
    exchange(client, instance, { position: 0, lines: [lease(0), lease(TODAY)], requests: [] }),
  adjust: (client, instance, other) =>
    adjustQuotas(client, instance, other + 1, [{ ...lease(TODAY), amount: 1 }], [adjusted(other)]),
  correct: (client, instance, other) =>
    appendCorrections(client, instance, other + 2, Number.MAX_SAFE_INTEGER, [corrected()]),
  'settle in the background': async (client, instance) => {
    const { request, account, key, model } = accepted();
    const row = { request, account, id: request, upstream: 'one', credential: null };
    const hold = { call: '{}', hold_tokens: 10, hold_cost_nanousd: null };
    await beginBackground(client, instance, { ...row, ...hold });
    const charge = { hold_tokens: 5, admitted_minute: minuteOf(Date.now()) };
    const ending = { end_reason: 'abandoned', usage_source: 'estimated' } as const;
    await settleBackground(client, instance, {
      ...{ type: 'request.abandoned', request, account, key, model },
      ...charge,
      ...ending,
    });
  },
  'accept and settle a batch': async (client, instance) => {
    const { batch, line, event } = batchLine();
    await acceptBatch(client, instance, {
      batch,
      windows: [{ ...lease(TODAY), units: 10 }],
      since: 0,
      lines: [{ row: line, event }],
      linesMax: 1_000_000,
    });
    const { request, account, key, model } = event;
    await settleBatch(client, instance, batch.batch, [
      {
        ...{ type: 'request.abandoned', request, account, key, model },
        ...{ hold_tokens: 5, admitted_minute: minuteOf(Date.now()) },
        ...{ end_reason: 'abandoned', usage_source: 'estimated' },
      },
    ]);
  },
  fence: (client, instance) => client.query('select daybook.fence_instance($1)', [instance]),
  'request recovery': (client, instance) => client.query('select daybook.request_recovery($1)', [instance]),
  recover: (client, instance, other) =>
    client.query('select daybook.recover_instance($1, $2)', [instance, other]),
  retire: (client, instance) => client.query('select daybook.retire_instance($1)', [instance]),
};
const NAMES = Object.keys(OPERATIONS);
const PAIRS = NAMES.flatMap((one, index) => NAMES.slice(index).map((other) => [one, other] as const));

const deadlocks = async (): Promise<number> => {
  await clients[2].query('select pg_stat_force_next_flush()');
  const { rows } = await clients[2].query<{ deadlocks: string }>(
    'select deadlocks from pg_stat_database where datname = current_database()',
  );
  return Number(rows[0]?.deadlocks);
};

/** The locks in their order, each as the statement that takes it, or fails where it would wait. */
const ORDER = [
  ["an instance's row", 'select from daybook.instance for no key update nowait'],
  ['allowances', 'select from daybook.allowance for no key update nowait'],
  ['the log', takeLockNow('log')],
] as const;

/** A dead or living instance with an open request and leases, and a living one. */
async function createInstances(isDead: boolean): Promise<{ instance: number; living: number }> {
  const owner = clients[2];
  const living = await registerInstance(owner, 'living');
  const instance = await registerInstance(owner, 'doomed');
  await appendRequests(owner, instance, 1, [accepted()]);
  await OPERATIONS['exchange']?.(owner, instance, living);
  if (isDead) await owner.query('select daybook.fence_instance($1)', [instance]);
  return { instance, living };
}

test.each(NAMES)('%s holds no later lock while it waits for an earlier one', async (name) => {
  const [client, , owner, holder] = clients;
  for (const [index, [awaited, take]] of ORDER.entries()) {
    const { instance, living } = await createInstances(name === 'recover');
    await holder.query(`begin; ${take}`);
    let isDone = false;
    const running = OPERATIONS[name]?.(client, instance, living)
      .catch(() => undefined)
      .finally(() => (isDone = true));
    await until(
      async () => isDone || (await countLockWaiters(owner)) > 0,
      (is) => is,
      `${name} to wait or to end`,
    );
    for (const [later, takeLater] of ORDER.slice(index + 1))
      expect(await isFree(owner, takeLater), `${later} while ${name} waits for ${awaited}`).toBe(true);
    await holder.query('rollback');
    await running;
  }
});

async function isFree(owner: Client, take: string): Promise<boolean> {
  try {
    await owner.query(`begin; ${take}`);
    return true;
  } catch (error) {
    if (!isLockTaken(error)) throw error;
    return false;
  } finally {
    await owner.query('rollback');
  }
}

test.each(PAIRS)('%s beside %s never deadlocks', async (one, other) => {
  const [left, right] = clients;
  for (let round = 0; round < ROUNDS; round++) {
    const { instance, living } = await createInstances(one === 'recover' || other === 'recover');
    const results = await Promise.allSettled([
      OPERATIONS[one]?.(left, instance, living),
      OPERATIONS[other]?.(right, instance, living),
    ]);
    const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
    expect(errors.filter(isRolledBack)).toEqual([]);
  }
  expect(await deadlocks()).toBe(0);
});

describe('a transaction that PostgreSQL rolled back', () => {
  const failure = (code: string): DatabaseError => Object.assign(new DatabaseError('', 0, 'error'), { code });

  test('is repeated, up to its bound', async () => {
    let attempts = 0;
    const run = (failures: number, code: string): Promise<number> =>
      retryTransaction(() => {
        attempts++;
        return attempts <= failures ? Promise.reject(failure(code)) : Promise.resolve(attempts);
      });
    expect(await run(2, '40P01')).toBe(3);
    attempts = 0;
    await expect(run(3, '40001')).rejects.toMatchObject({ code: '40001' });
    expect(attempts).toBe(3);
  });

  test('is not repeated for any other reason', async () => {
    let attempts = 0;
    const run = retryTransaction(() => {
      attempts++;
      return Promise.reject(failure('23505'));
    });
    await expect(run).rejects.toMatchObject({ code: '23505' });
    expect(attempts).toBe(1);
  });
});
