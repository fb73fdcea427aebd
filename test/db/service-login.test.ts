import { Client } from 'pg';
import { inject, expect, test } from 'vitest';
import { externalStore, type Store } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { migrate } from '#db/schema/migrate.ts';
import { ensureServiceLogin } from '#db/postgres/service-login.ts';
import { prepareQueue } from '../../worker/queue.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { ask, createEmptyDatabase, type TestDatabase } from '../support/database.ts';

/**
 * An empty database with the address of an owner that may make logins, and that of a login still to be made.
 */
function addresses({ name }: TestDatabase): {
  owner: Store;
  url(password?: string, login?: string): string;
  login: string;
} {
  const { host, port, passwords } = inject('cluster');
  const login = `service_${publicId()}`;
  const url = (password: string, user = login): string =>
    `postgres://${user}:${encodeURIComponent(password)}@localhost/${name}` +
    `?host=${encodeURIComponent(host)}&port=${port}`;
  return {
    owner: externalStore(url(passwords.superuser, 'postgres')),
    url: (password = 'first', user = login) => url(password, user),
    login,
  };
}

async function prepare(owner: Store): Promise<void> {
  await migrate(owner);
  await prepareQueue(owner, createLogger('silent'));
}

test('the service login acts as relay, worker and auditor, and cannot change the log', async () => {
  await using database = await createEmptyDatabase();
  const { owner, url, login } = addresses(database);
  await prepare(owner);
  expect(await ensureServiceLogin(owner, url())).toBe(login);
  const service = externalStore(url());
  for (const role of ['relay', 'worker', 'auditor'] as const) {
    expect(await ask(service.config(role), 'select current_user::text')).toBe(`daybook_${role}`);
    await expect(ask(service.config(role), 'update daybook.install set log_id = default')).rejects.toThrow(
      'permission denied',
    );
    await expect(ask(service.config(role), 'drop table daybook.log')).rejects.toThrow('must be owner');
  }
  const asItself = service.config('owner');
  await expect(ask(asItself, 'select 1 from daybook.log')).rejects.toThrow('permission denied');
  await expect(ask(asItself, 'set role postgres')).rejects.toThrow('permission denied');
  await expect(ask(asItself, 'create schema mine')).rejects.toThrow('permission denied');
});

test('the service login accepts an up-to-date database, and names the command for any other', async () => {
  await using database = await createEmptyDatabase();
  const { owner, url } = addresses(database);
  await prepare(owner);
  await ensureServiceLogin(owner, url());
  const service = externalStore(url());
  expect(await migrate(service)).toEqual([]);
  await prepareQueue(service, createLogger('silent'));

  await ask(owner.config('owner'), `insert into daybook_migrations.migration values ('9000_newer')`);
  await expect(migrate(service)).rejects.toThrow('the database was migrated by a newer version (9000_newer)');
  await ask(
    owner.config('owner'),
    `delete from daybook_migrations.migration where name in ('9000_newer', '0000_baseline')`,
  );
  await expect(migrate(service)).rejects.toThrow(
    'the database lacks 0000_baseline, and this login may not migrate it',
  );
  await ask(owner.config('owner'), "insert into daybook_migrations.migration values ('0000_baseline')");
  await ask(
    owner.config('owner'),
    "update daybook_migrations.definition set digest = 'other' where name = 'functions/log/append'",
  );
  await expect(migrate(service)).rejects.toThrow(
    'the database lacks functions/log/append, and this login may not migrate it',
  );
  expect(await migrate(owner)).toEqual(['functions/log/append']);
  expect(await migrate(service)).toEqual([]);
  await ask(
    owner.config('owner'),
    'delete from graphile_worker.migrations where id = (select max(id) from graphile_worker.migrations)',
  );
  await expect(prepareQueue(service, createLogger('silent'))).rejects.toThrow(
    'the job queue is not up to date',
  );
});

test('creating the service login again replaces its password, also concurrently', async () => {
  await using database = await createEmptyDatabase();
  const { owner, url } = addresses(database);
  await prepare(owner);
  await Promise.all([1, 2, 3].map(() => ensureServiceLogin(owner, url('first'))));
  await ensureServiceLogin(owner, url('second %/@'));
  expect(await ask(externalStore(url('second %/@')).config('relay'), 'select 1')).toBe(1);
  await expect(ask(externalStore(url('first')).config('relay'), 'select 1')).rejects.toThrow(
    'password authentication failed',
  );
});

test('the service login is never the owner, its password is ASCII, and no error contains it', async () => {
  await using database = await createEmptyDatabase();
  const { owner, url } = addresses(database);
  await prepare(owner);
  await expect(ensureServiceLogin(owner, url('canary', 'postgres'))).rejects.toThrow(
    /^SERVICE_DATABASE_URL is not usable: postgres may act as the owner/,
  );
  await expect(ensureServiceLogin(owner, url('pässword'))).rejects.toThrow(/must be printable ASCII$/);
  const stranger = { config: () => ({ ...owner.config('owner'), options: '-c role=daybook_auditor' }) };
  const refused = ensureServiceLogin(stranger, url('canary')).catch((error: Error) => error.message);
  expect(await refused).toMatch(/can't be created: permission denied/);
  expect(await refused).not.toContain('canary');
});

test('Postgres gets the password of the service login only as a SCRAM verifier', async () => {
  await using database = await createEmptyDatabase();
  const { owner, url, login } = addresses(database);
  await prepare(owner);
  await ensureServiceLogin(owner, url('canary'));
  const client: Client = await database.superuser();
  try {
    const { rows } = await client.query<{ kept: string }>(
      'select rolpassword as kept from pg_authid where rolname = $1',
      [login],
    );
    expect(rows[0]?.kept).toMatch(/^SCRAM-SHA-256\$4096:/);
  } finally {
    await client.end();
  }
});
