import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { randomBase62 } from '#db/ids.ts';
import { readConfig } from '#server/process/config.ts';
import type { Me, Welcome } from '#server/contract/session.ts';
import { greet } from '#server/process/greeting.ts';
import { startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { type ApiReply, PASSWORD, signIn, linkSecretOf, visit } from '../../support/dashboard.ts';
import { ask, type TestDatabase } from '../../support/database.ts';
import { makePlace, type Place, startRelay, type TestRelay } from '../../support/relay.ts';
import { refusedPort } from '../../support/upstream/upstream.ts';

let relay: TestRelay;
let file: string;
let email: string;
beforeAll(async () => {
  relay = await startRelay();
  file = path.join(relay.dataDir, 'setup-link.txt');
});
afterAll(() => relay[Symbol.asyncDispose]());

const { text } = commandLine(() => ({
  DAYBOOK_DATA: relay.dataDir,
  DATABASE_URL: (relay.store as TestDatabase).url,
}));

const claim = (secret: string, address: string) =>
  visit(relay).post<Me>('/api/v1/setup', { secret, email: address, password: PASSWORD });

/**
 * Many claims at once, each retried as its 503 says. All strangers share one connection to the database, so
 * that they can't delay members; on a busy machine some wait for it in vain.
 */
const claimAtOnce = (secretOf: () => string, name: string): Promise<ApiReply<Me>[]> =>
  Promise.all(
    Array.from({ length: 30 }, async (_, index) => {
      for (;;) {
        const reply = await claim(secretOf(), `${name}-${index}@example.com`);
        if (reply.status !== 503) return reply;
        const seconds = Number(reply.headers.get('retry-after'));
        expect(seconds).toBeGreaterThan(0);
        await wait(seconds * 1_000);
      }
    }),
  );

describe('the first administrator', () => {
  it('comes by a link that only who runs the server sees', async () => {
    const link = readFileSync(file, 'utf8').trim();
    expect(link).toMatch(new RegExp(`^http://127\\.0\\.0\\.1:${relay.port}/setup#[0-9A-Za-z]{43}$`));
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const greeting = { baseUrl: relay.baseUrl, models: [], firstKey: null, setup: { link, file } };
    expect(greet({ ...greeting, isShown: true })).toContain(`  ${link}\n`);
    // What isn't a terminal is kept in logs.
    const logged = greet({ ...greeting, isShown: false });
    expect([logged.includes(file), logged.includes(link)]).toEqual([true, false]);
    expect((await visit(relay).get<Welcome>('/api/v1/welcome')).body).toEqual({
      object: 'welcome',
      registration: 'invite',
      needs_setup: true,
      can_send_mail: false,
      providers: [],
      passwords: 'everyone',
    });
  });

  it('is never somebody who came without it', async () => {
    const replies = await claimAtOnce(() => randomBase62(43), 'guest');
    expect(new Set(replies.map(({ status, code }) => `${status} ${code}`))).toEqual(
      new Set(['404 invalid_link']),
    );
    const without = await visit(relay).post('/api/v1/setup', {
      email: 'guest@example.com',
      password: PASSWORD,
    });
    expect(without.status).toBe(400);
    expect((await relay.readLog()).some(({ event }) => event.type === 'member.added')).toBe(false);
  });

  it('is one, however many use links at the same moment', async () => {
    // A second link of the command line, which is as good as the first.
    const first = linkSecretOf((await text('setup-link')).trim());
    expect(first).toBe(linkSecretOf(readFileSync(file, 'utf8').trim()));
    const replies = await claimAtOnce(() => first, 'admin');
    const made = replies.filter(({ status }) => status === 200);
    expect(made).toHaveLength(1);
    const others = new Set(replies.map(({ status, code }) => `${status} ${code}`));
    expect(others).toEqual(new Set(['200 null', '404 invalid_link']));
    const { body } = made[0] as (typeof made)[number];
    expect(body).toMatchObject({ member: { role: 'administrator' }, account: { name: 'first' } });
    email = body.member.email;
    const added = (await relay.readLog()).filter(({ event }) => event.type === 'member.added');
    expect(added).toHaveLength(1);
  });

  it('leaves no link behind', async () => {
    expect(existsSync(file)).toBe(false);
    expect((await visit(relay).get<Welcome>('/api/v1/welcome')).body.needs_setup).toBe(false);
  });

  it('who is locked out comes back by the command line', async () => {
    const link = (await text('member', 'reset-link', email)).trim();
    expect((await relay.readLog()).at(-1)?.event).toMatchObject({
      type: 'member.reset_link_created',
      actor: 'command-line',
    });
    const client = visit(relay);
    const reset = await client.post<Me>('/api/v1/password/reset', {
      secret: linkSecretOf(link),
      password: 'a new one, and long',
    });
    expect(reset.body.member).toMatchObject({ email, role: 'administrator' });
    expect((await client.get('/api/v1/me')).status).toBe(200);
  });
});

/** The second test of each pair continues where the first one ended: a server less to start. */
describe('an unattended setup', () => {
  const places = new AsyncDisposableStack();
  let configured: Place;
  let linked: Place;
  beforeAll(async () => {
    configured = places.use(await makePlace());
    linked = places.use(await makePlace());
  });
  // A server that still ran would have sessions open when its place is taken away.
  afterAll(() => places.disposeAsync());

  const startConfigured = () =>
    startServer(
      readConfig({ ...configured.env, ADMIN_EMAIL: 'Ops@Example.com', ADMIN_PASSWORD: PASSWORD }),
      createLogger('silent'),
    );

  it('makes the administrator whom the configuration names, once', async () => {
    for (let time = 0; time < 2; time++) {
      const server = await startConfigured();
      try {
        expect(server.setupLink).toBeNull();
        const { me } = await signIn({ port: Number(new URL(server.baseUrl).port) }, 'ops@example.com');
        expect(me).toMatchObject({ member: { role: 'administrator' }, account: { name: 'first' } });
      } finally {
        await server.stop();
      }
    }
  });

  it("leaves nothing running where that administrator can't be made", async () => {
    const { store } = configured;
    await ask((store as TestDatabase).config('owner'), "update daybook.member set role = 'member'");
    await expect(startConfigured()).rejects.toThrow('ADMIN_EMAIL belongs to a member already.');
    // It would have sessions open.
    const sessions = `select count(*)::int from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`;
    await expect.poll(() => ask((store as TestDatabase).config('owner'), sessions)).toBe(0);
  });

  it('gives links and base URLs the address that people use', async () => {
    await using place = await makePlace();
    const port = await refusedPort();
    const server = await startServer(
      readConfig({ ...place.env, PORT: String(port), PUBLIC_URL: 'https://daybook.example.com/' }),
      createLogger('silent'),
    );
    try {
      expect(server.setupLink).toMatch(/^https:\/\/daybook\.example\.com\/setup#/);
      // Whatever stands between takes the S off: people come by TLS alone, and so do their cookies.
      const origin = `http://127.0.0.1:${port}`;
      const body = JSON.stringify({
        secret: linkSecretOf(server.setupLink ?? ''),
        email: 'ops@example.com',
        password: PASSWORD,
      });
      const reply = await fetch(`${origin}/api/v1/setup`, {
        method: 'POST',
        headers: { origin, 'content-type': 'application/json' },
        body,
      });
      expect(reply.headers.getSetCookie().join()).toMatch(/^__Host-daybook=.*; Secure$/);
      expect(reply.headers.get('strict-transport-security')).toMatch(/^max-age=\d+$/);
    } finally {
      await server.stop();
    }
  });

  it('gives a restarted server its link again, and a second one on another directory none', async () => {
    const secretAt = async (): Promise<string | null> => {
      const server = await startServer(readConfig(linked.env), createLogger('silent'));
      await server.stop();
      return server.setupLink === null ? null : linkSecretOf(server.setupLink);
    };
    const first = await secretAt();
    expect(first).toMatch(/^[0-9A-Za-z]{43}$/);
    expect(await secretAt()).toBe(first);
    rmSync(path.join(linked.dataDir, 'setup-link.txt'));
    expect(await secretAt()).toBeNull();
  });

  it('serves where no setup link can be made, and says so', async () => {
    await ask(
      (linked.store as TestDatabase).config('owner'),
      'with revoked as (delete from daybook.link returning id) select count(*) from revoked',
    );
    await ask(
      (linked.store as TestDatabase).config('owner'),
      'revoke insert on daybook.link from daybook_relay',
    );
    const server = await startServer(readConfig(linked.env), createLogger('silent'));
    try {
      expect(server.setupLink).toBeNull();
      expect(
        (await visit({ port: Number(new URL(server.baseUrl).port) }).get<Welcome>('/api/v1/welcome')).body
          .needs_setup,
      ).toBe(true);
    } finally {
      await server.stop();
    }
  });

  it('is set up with all that it needs', () => {
    expect(() => readConfig({ ADMIN_EMAIL: 'ops@example.com' })).toThrow(
      'ADMIN_PASSWORD is missing: ADMIN_EMAIL is set, and needs it.',
    );
    expect(() => readConfig({ ADMIN_EMAIL: 'ops@example.com', ADMIN_PASSWORD: 'short' })).toThrow(
      /^ADMIN_PASSWORD is not usable: must have at least 10 characters/,
    );
    expect(() =>
      readConfig({ SMTP_URL: 'smtp://mail.example.com', SMTP_FROM: 'daybook@example.com' }),
    ).toThrow('PUBLIC_URL is missing');
    expect(() => readConfig({ PUBLIC_URL: 'https://example.com/daybook' })).toThrow(
      'PUBLIC_URL is not usable: must have no path.',
    );
  });
});
