import path from 'node:path';
import { expect, test } from 'vitest';
import { ManagementKeyControl } from '#server/control/management-key-control.ts';
import { createDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { changeControl, until } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';

const SERVERS = 3;

test(
  'a management key that is revoked is rejected by every server process',
  { timeout: 240_000 },
  async () => {
    await using stack = new AsyncDisposableStack();
    const database = stack.use(await createDatabase());
    const directories = await Promise.all(Array.from({ length: SERVERS }, () => makeTestDirectory()));
    stack.defer(async () => void (await Promise.all(directories.map(removeTestDirectory))));
    const [first = ''] = directories;
    // The first makes the schema and the pepper.
    const servers: ServerProcess[] = [];
    for (const DAYBOOK_DATA of directories) {
      const server = await spawnServer({
        DAYBOOK_DATA,
        DAYBOOK_PEPPER_FILE: path.join(first, 'pepper'),
        DATABASE_URL: database.url,
        DAYBOOK_WORKER: 'off',
        LOG_LEVEL: 'error',
      });
      servers.push(server);
      stack.defer(() => server.kill());
    }
    const key = await changeControl(database, first, (control, pepper) =>
      new ManagementKeyControl(control).create(pepper, {
        ...{ name: 'terraform', scopes: ['keys:read'], account: null, expiresAt: null },
      }),
    );
    const codes = (): Promise<string[]> =>
      Promise.all(
        servers.map(async ({ port }) => {
          const reply = await fetch(`http://127.0.0.1:${port}/api/v1/keys`, {
            headers: { authorization: `Bearer ${key.secret}` },
          });
          const { error } = (await reply.json()) as { error?: { code: string } };
          return error?.code ?? String(reply.status);
        }),
      );
    const all = (code: string) => (seen: readonly string[]) => seen.every((each) => each === code);
    await until(codes, all('200'), 'the key on every server');
    await changeControl(database, first, (control) => new ManagementKeyControl(control).revoke(key.id));
    const rejected = 'management_key_revoked';
    expect(await until(codes, all(rejected), 'the revocation on every server')).toHaveLength(SERVERS);
  },
);
