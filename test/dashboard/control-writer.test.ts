import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Store } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import {
  CHANGES_PER_HOUR_MAX,
  CONTROL_WAITING_MAX,
  CONTROL_WAITING_PER_MEMBER_MAX,
} from '#server/control/bounds.ts';
import { ControlWriter } from '#server/control/control-writer.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';

const log = createLogger('silent');

/** From where people's changes are made: what a store that fails does to it. */

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database?.[Symbol.asyncDispose]());

const seats = async (): Promise<{ open: number; all: number }> => {
  const [open, all] = await Promise.all([
    ask(
      database.config('auditor'),
      `select count(*)::int from daybook.instance
       where name like 'dashboard %' and closed_at is null and dead_at is null`,
    ),
    ask(
      database.config('auditor'),
      "select count(*)::int from daybook.instance where name like 'dashboard %'",
    ),
  ]);
  return { open: open as number, all: all as number };
};
/** A seat that its test leaves at the end. */
const takeSeat = (): ControlWriter & AsyncDisposable => {
  const seat = new ControlWriter(database, log);
  return Object.assign(seat, { [Symbol.asyncDispose]: () => seat.close() });
};
const create = (seat: ControlWriter, name: string, actor = 'member/Abcdefgh') =>
  seat.change(actor, (control) => control.createAccount(name));
const codeOf = (outcome: unknown): string | null => (outcome instanceof ApiError ? outcome.code : null);

test('it is an instance from its first change on, and leaves in order', async () => {
  const seat = new ControlWriter(database, log);
  expect((await seats()).all).toBe(0);
  expect(await create(seat, 'one')).toMatchObject({ name: 'one', event: { type: 'account.registered' } });
  expect(await seats()).toEqual({ open: 1, all: 1 });
  await seat.close();
  expect(await seats()).toEqual({ open: 0, all: 1 });
  expect(codeOf(await create(seat, 'late'))).toBe('shutting_down');
});

test("a change that can't be carried out is told so, and costs nobody the connection", async () => {
  await using seat = takeSeat();
  await create(seat, 'taken');
  const before = await seats();
  await expect(create(seat, 'taken')).rejects.toThrow(DecisionError);
  await expect(
    seat.change('member/Abcdefgh', (control) => control.suspendAccount({ id: 'Unknown0' })),
  ).rejects.toThrow(DecisionError);
  expect(await create(seat, 'next')).toMatchObject({ name: 'next' });
  expect(await seats()).toEqual(before);
});

test('recovers by itself from a lost connection or an instance declared dead', async () => {
  const seat = new ControlWriter(database, log);
  const owner = await connectAs(database, 'owner');
  try {
    await create(seat, 'before');
    const broken = await seat.change('member/Abcdefgh', async (control, client) => {
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      const superuser = await database.superuser();
      await superuser.query('select pg_terminate_backend($1)', [rows[0]?.pid]);
      await superuser.end();
      return control.createAccount('cut');
    });
    expect(codeOf(broken)).toBe('store_unavailable');
    expect(await create(seat, 'after')).toMatchObject({ name: 'after' });
    expect((await seats()).open).toBe(1);

    const dead = await ask(
      database.config('auditor'),
      "select max(id) from daybook.instance where name like 'dashboard %'",
    );
    await owner.query('select daybook.fence_instance($1)', [dead]);
    expect(await create(seat, 'as another')).toMatchObject({ name: 'as another' });
  } finally {
    await owner.end();
    await seat.close();
  }
  expect((await seats()).open).toBe(0);
});

test('a fault of ours is one, and no word on the store', async () => {
  await using seat = takeSeat();
  await expect(
    seat.change('member/Abcdefgh', (_control, client) => client.query('select no_such_column')),
  ).rejects.toThrow('no_such_column');
  await expect(seat.change('member/Abcdefgh', () => Promise.reject(new TypeError('ours')))).rejects.toThrow(
    TypeError,
  );
  expect(await create(seat, 'all the same')).toMatchObject({ name: 'all the same' });
});

test('a value that Postgres rejects is rolled back, and the connection stays usable', async () => {
  await using seat = takeSeat();
  await create(seat, 'before the refusal');
  const before = await seats();
  const refused = seat.change('member/Abcdefgh', async (_control, client) => {
    await client.query('begin');
    await client.query("select set_config('daybook.left', 'behind', true)");
    return client.query('select 1 / 0');
  });
  await expect(refused).rejects.toThrow('division by zero');
  expect(
    await seat.change(
      'member/Abcdefgh',
      async (_control, client) =>
        (await client.query("select current_setting('daybook.left', true) as left")).rows,
    ),
  ).toEqual([{ left: '' }]);
  expect(await create(seat, 'after the refusal')).toMatchObject({ name: 'after the refusal' });
  expect(await seats()).toEqual(before);
});

test('who signs in or administrates finds a place when all others are taken, and goes first', async () => {
  await using seat = takeSeat();
  const order: string[] = [];
  const note = (name: string, lane: 'first' | 'ordinary', actor: string) =>
    seat.change(
      actor,
      async () => {
        order.push(name);
        return name;
      },
      lane,
    );
  const ordinary = Array.from({ length: CONTROL_WAITING_MAX + 1 }, (_, index) =>
    note(`ordinary ${index}`, 'ordinary', `member/${index}`),
  );
  const first = note('first', 'first', 'member/0');
  expect(codeOf(await ordinary.at(-1))).toBe('relay_overloaded');
  expect(await first).toBe('first');
  await Promise.all(ordinary);
  // One was at it already.
  expect(order.slice(0, 3)).toEqual(['ordinary 0', 'first', 'ordinary 1']);
});

test('changes of a member are limited per hour, without affecting other members', async () => {
  await using seat = takeSeat();
  const change = (actor: string, lane: 'first' | 'ordinary' = 'ordinary') =>
    seat.change(actor, async () => 'made', lane);
  for (let made = 0; made < CHANGES_PER_HOUR_MAX; made++)
    expect(await change('member/Abcdefgh')).toBe('made');
  const refused = await change('member/Abcdefgh');
  expect(codeOf(refused)).toBe('too_many_attempts');
  expect((refused as ApiError).retryAfterS).toBeGreaterThan(3_000);
  expect(await change('member/Another1')).toBe('made');
  expect(await change('member/Abcdefgh', 'first')).toBe('made');
});

test('an unavailable or silent store is a 503 for each waiting change; a full queue rejects', async () => {
  const frozen = createServer(() => {}).listen(0, '127.0.0.1');
  await once(frozen, 'listening');
  const { port } = frozen.address() as AddressInfo;
  const frozenStore: Store = { config: (role) => ({ ...database.config(role), host: '127.0.0.1', port }) };
  const seat = new ControlWriter(frozenStore, log, 200);
  try {
    const outcomes = await Promise.all(
      Array.from({ length: CONTROL_WAITING_MAX + 1 }, (_, index) =>
        create(seat, `wait ${index}`, `member/${index}`),
      ),
    );
    expect(outcomes.map(codeOf)).toEqual([
      ...Array.from({ length: CONTROL_WAITING_MAX }, () => 'store_unavailable'),
      'relay_overloaded',
    ]);
  } finally {
    frozen.close();
    await seat.close();
  }
  const away = new ControlWriter(frozenStore, log);
  expect(codeOf(await create(away, 'away'))).toBe('store_unavailable');
  await away.close();
});

test('one person keeps no more than some changes waiting, and leaves the others their turn', async () => {
  await using seat = takeSeat();
  const many = Array.from({ length: CONTROL_WAITING_PER_MEMBER_MAX + 1 }, (_, index) =>
    create(seat, `many ${index}`),
  );
  const other = create(seat, 'of another', 'member/Another1');
  expect((await Promise.all(many)).map(codeOf)).toEqual([
    ...Array.from({ length: CONTROL_WAITING_PER_MEMBER_MAX }, () => null),
    'rate_limit_exceeded',
  ]);
  expect(await other).toMatchObject({ name: 'of another' });
});

test('an idle connection that breaks retires its instance before others declare it dead', async () => {
  await using seat = takeSeat();
  await create(seat, 'idle');
  const superuser = await database.superuser();
  await superuser.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = $1 and application_name = 'daybook-relay'`,
    [database.name],
  );
  await superuser.end();
  await until(seats, ({ open }) => open === 0, 'the instance');
  expect(await create(seat, 'busy again')).toMatchObject({ name: 'busy again' });
});

test('its heartbeat as an instance without requests leaves nothing for recovery to search', async () => {
  await using seat = takeSeat();
  await create(seat, 'beating');
  const openFrom = () =>
    ask(
      database.config('auditor'),
      `select open_from > daybook.head(0::smallint) from daybook.instance
       where name like 'dashboard %' and closed_at is null and dead_at is null`,
    );
  expect(await until(openFrom, (is) => is === true, 'the heartbeat')).toBe(true);
});

test('a process that freezes before its commit blocks no append and changes nothing', async () => {
  await using frozen = takeSeat();
  await using other = takeSeat();
  const appended = Promise.withResolvers<void>();
  const thawed = Promise.withResolvers<void>();
  const changing = frozen.change('member/Abcdefgh', (control, client) =>
    inTransaction(client, async () => {
      await control.append([
        {
          event: {
            type: 'account.registered',
            account: publicId(),
            name: 'frozen',
            actor: 'member/Abcdefgh',
          },
          version: 1,
          claim: 'account-name/frozen',
        },
      ]);
      appended.resolve();
      await thawed.promise;
    }),
  );
  try {
    await appended.promise;
    expect(await create(other, 'other', 'member/Bbcdefgh')).toMatchObject({ name: 'other' });
    thawed.resolve();
    expect(codeOf(await changing)).toBe('store_unavailable');
    // Nobody has the name.
    expect(await create(other, 'frozen', 'member/Bbcdefgh')).toMatchObject({ name: 'frozen' });
  } finally {
    thawed.resolve();
  }
});
