import { expect, test } from 'vitest';
import type { LostEvents } from '#db/log/acknowledged.ts';
import { backends, openAppender, outcomeOf } from '../../support/log/appended.ts';
import { createDatabase } from '../../support/database.ts';
import { accepted, openWriter, readLog } from '../../support/log/log-writer.ts';
import { until } from '../../support/relay.ts';

test('an appender names events that the log lacks after a reconnection and appends nothing', async () => {
  await using database = await createDatabase();
  const found: LostEvents[] = [];
  await using appending = await openAppender(database, { onLost: (lost) => found.push(lost) });
  const { appender, superuser, instance } = appending;
  const accept = () => outcomeOf(appender, accepted());
  for (let call = 1; call <= 6; call++) expect(await accept()).toBe('durable');
  // As a standby that had received four of the six batches, which was promoted and has gone on since.
  await superuser.query(`set session_replication_role = replica;
    create table public.kept as select * from daybook.log where last_position > 4;
    create table public.kept_batch as select * from daybook.log_batch where last_position > 4;
    delete from daybook.log where last_position > 4;
    delete from daybook.log_batch where last_position > 4`);
  for (const pid of await backends(superuser))
    await superuser.query('select pg_terminate_backend($1)', [pid]);
  expect(await accept()).not.toBe('durable');
  await until(
    async () => found.length,
    (count) => count > 1,
    'the second finding',
  );
  expect(found[0]).toEqual({ instance, batchNo: 6, first: 5, last: 6 });
  expect(await accept()).toBe('refused');
  expect(await readLog(database)).toHaveLength(4);

  // The events are back, and so is the appender, without a restart.
  await superuser.query(`insert into daybook.log select * from public.kept;
    insert into daybook.log_batch select * from public.kept_batch`);
  await until(
    async () => appender.mode,
    (mode) => mode === 'up',
    'the appender',
  );
  expect(await accept()).toBe('durable');
});

test('an appender continues after a reconnection to a log that others have continued', async () => {
  await using database = await createDatabase();
  const found: LostEvents[] = [];
  await using appending = await openAppender(database, { onLost: (lost) => found.push(lost) });
  const { appender, superuser } = appending;
  expect(await outcomeOf(appender, accepted())).toBe('durable');
  await using writer = await openWriter(database);
  await writer.append([accepted(), accepted()]);
  const mine = await backends(superuser);
  const { rows } = await writer.client.query<{ pid: number }>('select pg_backend_pid() as pid');
  for (const pid of mine.filter((each) => each !== rows[0]?.pid))
    await superuser.query('select pg_terminate_backend($1)', [pid]);
  await until(
    () => outcomeOf(appender, accepted()),
    (outcome) => outcome === 'durable',
    'the appender',
  );
  expect(found).toEqual([]);
});
