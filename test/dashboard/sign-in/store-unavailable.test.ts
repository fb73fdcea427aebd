import { Client } from 'pg';
import { expect, it } from 'vitest';
import { addMember, PASSWORD, visit } from '../../support/dashboard.ts';
import type { TestDatabase } from '../../support/database.ts';
import { startRelay, until } from '../../support/relay.ts';

/** Promise P7: a fault of the store is never told as one of the person. */
it('says 503 and never 401 while the store is away, and the session is good when it is back', async () => {
  await using relay = await startRelay();
  const ana = await addMember(relay);
  const store = relay.store as TestDatabase;
  // From another database: none closes itself.
  const inside = await store.superuser();
  const { host, port, user, password } = inside;
  await inside.end();
  const superuser = new Client({ host, port, user, password: password ?? undefined, database: 'postgres' });
  await superuser.connect();
  try {
    await superuser.query(`alter database "${store.name}" allow_connections false`);
    await superuser.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [
      store.name,
    ]);
    const away = [
      await ana.get('/api/v1/me'),
      await ana.post('/api/v1/password', { current: PASSWORD, password: PASSWORD }),
      await visit(relay).post('/api/v1/session', { email: ana.email, password: PASSWORD }),
      await visit(relay).post('/api/v1/setup', {
        secret: 'x'.repeat(43),
        email: 'x@example.com',
        password: PASSWORD,
      }),
      await visit(relay).post('/api/v1/password/forgotten', { email: ana.email }),
    ];
    expect(away.map(({ status, code }) => `${status} ${code}`)).toEqual(
      Array<string>(5).fill('503 store_unavailable'),
    );
    expect(Number(away[0]?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(ana.cookie).not.toBe('');
  } finally {
    await superuser.query(`alter database "${store.name}" allow_connections true`);
    await superuser.end();
  }
  await until(
    () => ana.get('/api/v1/me'),
    ({ status }) => status === 200,
    'the session',
  );
});
