import { expect, test } from 'vitest';
import { FencingGuard } from '#db/instances/fencing-guard.ts';
import { recoverInstance } from '#db/instances/instance.ts';
import {
  InstanceSession,
  type InstanceSessionOptions,
  withInstance,
} from '#db/instances/instance-session.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';

const stateOf = (database: TestDatabase, instance: number): Promise<unknown> =>
  ask(
    database.config('auditor'),
    `select case when closed_at is null then 'open' else 'retired' end
      from daybook.instance where id = ${instance}`,
  );

const openSession = (database: TestDatabase, on: Partial<InstanceSessionOptions> = {}) =>
  new InstanceSession({ name: 'test', connection: () => connectAs(database, 'relay'), ...on });

/** Declares an instance dead and recovers it, as a peer does. */
async function recover(database: TestDatabase, dead: number): Promise<void> {
  const client = await connectAs(database, 'relay');
  await withInstance(client, 'peer', ({ instance }) => recoverInstance(client, dead, instance));
  await client.end();
}

test('a fenced session releases its writers and registers a new instance, with batches from 1', async () => {
  await using database = await createDatabase();
  const guard = new FencingGuard();
  const steps: string[] = [];
  const session = openSession(database, {
    guard,
    onRegistered: () => void steps.push('registered'),
    onActive: () => steps.push('active'),
    onFenced: () => steps.push(`fenced, guard fenced: ${guard.isFenced}`),
    release: () => Promise.resolve(void steps.push('released')),
  });
  await session.register();
  const first = session.instance;
  expect([session.nextBatchNo(), session.nextBatchNo()]).toEqual([1, 2]);

  await recover(database, first);
  await until(
    () => Promise.resolve(steps.length),
    (count) => count === 6,
    'the new instance',
  );
  expect(steps).toEqual([
    'registered',
    'active',
    'fenced, guard fenced: true',
    'released',
    'registered',
    'active',
  ]);
  expect(session.instance).toBeGreaterThan(first);
  expect(session.nextBatchNo()).toBe(1);
  expect(guard.isValid(performance.now())).toBe(true);

  // A report about the earlier instance comes late, and changes nothing.
  session.fence(first);
  expect(guard.isFenced).toBe(false);
  await session.close();
  expect(await stateOf(database, session.instance)).toBe('retired');
});

test('a session that is closed with requests open leaves its instance to be recovered', async () => {
  await using database = await createDatabase();
  const session = openSession(database);
  await session.register();
  await session.close(() => Promise.resolve(false));
  expect(await stateOf(database, session.instance)).toBe('open');
});

test('a session over a borrowed connection retires its instance and leaves the connection open', async () => {
  await using database = await createDatabase();
  const client = await connectAs(database, 'relay');
  const instance = await withInstance(client, 'command', (session) => Promise.resolve(session.instance));
  expect(await stateOf(database, instance)).toBe('retired');
  expect((await client.query<{ one: number }>('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await client.end();
});
