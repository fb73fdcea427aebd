import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPool } from '#db/postgres/connect.ts';
import { deleteExpiredLinks } from '#db/members/links.ts';
import { deleteExpiredSessions } from '#db/members/sessions.ts';
import { readConfig } from '#server/process/config.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import type { CreatedLink } from '#server/contract/members.ts';
import type { SessionRow } from '#server/contract/session.ts';
import { addMember, type DashboardClient, PASSWORD, setUp, signIn, visit } from '../../support/dashboard.ts';
import { ask, type TestDatabase } from '../../support/database.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';

let relay: TestRelay;
let other: RunningServer;
beforeAll(async () => {
  relay = await startRelay();
  const { url } = relay.store as TestDatabase;
  other = await startServer(
    readConfig({ PORT: '0', DAYBOOK_DATA: relay.dataDir, DATABASE_URL: url, LOG_LEVEL: 'silent' }),
    createLogger('silent'),
  );
});
afterAll(async () => {
  await other.stop();
  await relay[Symbol.asyncDispose]();
});

/** The same browser at the other server. */
function there(client: DashboardClient): DashboardClient {
  const same = visit({ port: Number(new URL(other.baseUrl).port) });
  same.cookie = client.cookie;
  return same;
}

const rows = async (client: DashboardClient): Promise<SessionRow[]> =>
  (await client.get<{ data: SessionRow[] }>('/api/v1/sessions')).body.data;
const owner = (query: string): Promise<unknown> => ask(relay.store.config('owner'), query);

describe('sessions', () => {
  it('are good on every server at once, and so is their end', async () => {
    const ana = await addMember(relay);
    expect((await there(ana).get('/api/v1/me')).status).toBe(200);
    const before = there(ana);
    expect((await ana.delete('/api/v1/session')).status).toBe(200);
    expect(ana.cookie).toBe('');
    const after = await before.get('/api/v1/me');
    expect([after.status, after.code]).toEqual([401, 'unauthenticated']);
  });

  it('are listed for their own member, by browser and network', async () => {
    const ana = await addMember(relay);
    const phone = visit(relay, {
      'user-agent': [
        'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X)',
        'AppleWebKit/605.1.15 Version/19.0 Mobile/15E148 Safari/604.1',
      ].join(' '),
    });
    await phone.post('/api/v1/session', { email: ana.email, password: PASSWORD });
    const [newest, oldest, ...more] = await rows(ana);
    expect(more).toEqual([]);
    expect(newest).toMatchObject({ browser: 'Safari on iPhone', network: '127.0.0.0/24', is_current: false });
    expect(oldest).toMatchObject({ id: ana.me.session, is_current: true });
    const opened = new Date(newest?.created_at ?? '').getTime();
    expect(new Date(newest?.expires_at ?? '').getTime() - opened).toBe(12 * 3_600_000);
  });

  it('end one by one, and nobody ends those of another', async () => {
    const [ana, bo] = await Promise.all([addMember(relay), addMember(relay)]);
    const second = await signIn(relay, ana.email);
    expect((await bo.delete(`/api/v1/sessions/${second.me.session}`)).code).toBe('not_found');
    expect((await second.get('/api/v1/me')).status).toBe(200);
    expect((await ana.delete(`/api/v1/sessions/${second.me.session}`)).status).toBe(200);
    expect((await second.get('/api/v1/me')).status).toBe(401);
    expect((await ana.get('/api/v1/me')).status).toBe(200);
  });

  it('all end by one button, and the log tells each', async () => {
    const ana = await addMember(relay);
    const second = await signIn(relay, ana.email);
    expect((await ana.delete('/api/v1/sessions')).status).toBe(200);
    expect((await second.get('/api/v1/me')).status).toBe(401);
    const closed = (await relay.readLog()).flatMap(({ event }) =>
      event.type === 'session.closed' && event.member === ana.me.member.id ? [event.session] : [],
    );
    expect(new Set(closed)).toEqual(new Set([ana.me.session, second.me.session]));
  });

  it('end when the password is changed, but for the one that changes it', async () => {
    const ana = await addMember(relay);
    const second = await signIn(relay, ana.email);
    expect(
      (await ana.post('/api/v1/password', { current: 'not this one', password: 'another long one' })).code,
    ).toBe('invalid_credentials');
    expect((await second.get('/api/v1/me')).status).toBe(200);
    expect(
      (await ana.post('/api/v1/password', { current: PASSWORD, password: 'another long one' })).status,
    ).toBe(200);
    expect((await ana.get('/api/v1/me')).status).toBe(200);
    expect((await second.get('/api/v1/me')).status).toBe(401);
    expect((await visit(relay).post('/api/v1/session', { email: ana.email, password: PASSWORD })).code).toBe(
      'invalid_credentials',
    );
    await signIn(relay, ana.email, 'another long one');
  });

  it('end after half a day without use, and after thirty days in any case', async () => {
    const ana = await addMember(relay);
    const set = (change: string): Promise<unknown> =>
      owner(`update daybook.session set ${change} where id = '${ana.me.session}'`);
    await set("seen_at = clock_timestamp() - interval '11 hours 59 minutes'");
    expect((await ana.get('/api/v1/me')).status).toBe(200);
    // Being used has moved its end.
    expect(
      await owner(
        `select seen_at > clock_timestamp() - interval '1 minute'
         from daybook.session where id = '${ana.me.session}'`,
      ),
    ).toBe(true);
    await set("seen_at = clock_timestamp() - interval '12 hours'");
    expect((await ana.get('/api/v1/me')).status).toBe(401);
    const bo = await addMember(relay);
    await owner(`update daybook.session set expires_at = clock_timestamp() where id = '${bo.me.session}'`);
    expect((await bo.get('/api/v1/me')).status).toBe(401);
    const { session } = (await signIn(relay, bo.email)).me;
    expect(
      await owner(
        `select expires_at - opened_at between interval '29 days 23:59:59' and interval '30 days 00:00:01'
         from daybook.session where id = '${session}'`,
      ),
    ).toBe(true);
  });

  it('are deleted after they expire, as are links; active ones stay', async () => {
    const [ana, bo] = await Promise.all([addMember(relay), addMember(relay)]);
    const administrator = await setUp(relay);
    const links = await Promise.all(
      [1, 2].map(
        async () =>
          (await administrator.post<CreatedLink>('/api/v1/invitations', { account: null, role: 'member' }))
            .body,
      ),
    );
    await owner(
      `update daybook.session set seen_at = clock_timestamp() - interval '13 hours'
       where id = '${ana.me.session}'`,
    );
    await owner(`update daybook.link set expires_at = clock_timestamp() where id = '${links[0]?.id}'`);
    const pool = openPool(relay.store.config('relay'));
    try {
      await deleteExpiredSessions(pool);
      await deleteExpiredLinks(pool);
    } finally {
      await pool.end();
    }
    expect(
      await owner(
        `select array_agg(id::text) from daybook.session
         where id in ('${ana.me.session}', '${bo.me.session}')`,
      ),
    ).toEqual([bo.me.session]);
    expect(
      await owner(
        `select array_agg(id::text) from daybook.link where id in ('${links[0]?.id}', '${links[1]?.id}')`,
      ),
    ).toEqual([links[1]?.id]);
  });

  it('are in the database as digests only', async () => {
    const ana = await addMember(relay);
    const token = ana.cookie.slice('daybook='.length);
    const stored = String(await owner(`select string_agg(s::text, ' ') from daybook.session s`));
    expect(stored).toContain(ana.me.session);
    expect(stored).not.toContain(token);
    expect(
      await owner(
        `select encode(digest, 'hex') = encode(sha256('${token}'), 'hex')
         from daybook.session where id = '${ana.me.session}'`,
      ),
    ).toBe(true);
  });

  it('can be read by the relay only', async () => {
    for (const table of ['member', 'session', 'link', 'attempt']) {
      for (const role of ['worker', 'auditor'] as const) {
        await expect(ask(relay.store.config(role), `select count(*) from daybook.${table}`)).rejects.toThrow(
          'permission denied',
        );
      }
    }
  });
});
