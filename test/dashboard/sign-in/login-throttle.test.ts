import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPool } from '#db/postgres/connect.ts';
import { pepperFile, readPepper } from '#db/secrets/pepper.ts';
import { readConfig } from '#server/process/config.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { LoginThrottle } from '#server/sign-in/throttle.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { addMember, type ApiReply, PASSWORD, setUp, statuses, visit } from '../../support/dashboard.ts';
import type { TestDatabase } from '../../support/database.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';

let relay: TestRelay;
let other: RunningServer;
beforeAll(async () => {
  relay = await startRelay({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  const { url } = relay.store as TestDatabase;
  other = await startServer(
    readConfig({
      PORT: '0',
      DAYBOOK_DATA: relay.dataDir,
      DATABASE_URL: url,
      TRUSTED_PROXIES: '127.0.0.1',
      LOG_LEVEL: 'silent',
    }),
    createLogger('silent'),
  );
});
afterAll(async () => {
  await other.stop();
  await relay[Symbol.asyncDispose]();
});

const from = (address: string, port = relay.port) => visit({ port }, { 'x-forwarded-for': address });
const attempt = (address: string, email: string, password: string, port?: number): Promise<ApiReply> =>
  from(address, port).post('/api/session', { email, password });

describe('wrong passwords', () => {
  it('end after ten per email and network, on all servers together, without affecting others', async () => {
    const { email } = await addMember(relay);
    const there = Number(new URL(other.baseUrl).port);
    const wrong = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        attempt(`203.0.113.${index}`, email, 'wrong', index % 2 === 0 ? relay.port : there),
      ),
    );
    expect(wrong.filter(({ code }) => code === 'invalid_credentials')).toHaveLength(10);
    expect(wrong.filter(({ code }) => code === 'too_many_attempts')).toHaveLength(2);
    const refused = await attempt('203.0.113.200', email, PASSWORD);
    expect([refused.status, refused.code]).toEqual([429, 'too_many_attempts']);
    const waitS = Number(refused.headers.get('retry-after'));
    expect(waitS).toBeGreaterThan(0);
    expect(waitS).toBeLessThanOrEqual(15 * 60);
    // A stranger locks nobody out, and their network keeps everybody else.
    expect((await attempt('198.51.100.1', email, PASSWORD)).status).toBe(200);
    const bo = await addMember(relay);
    expect((await attempt('203.0.113.1', bo.email, PASSWORD)).status).toBe(200);
  });

  it('are forgotten when the right one comes', async () => {
    const { email } = await addMember(relay);
    const wrong = async (times: number): Promise<void> => {
      for (let index = 0; index < times; index++)
        expect((await attempt('192.0.2.1', email, 'wrong')).code).toBe('invalid_credentials');
    };
    await wrong(9);
    expect((await attempt('192.0.2.1', email, PASSWORD)).status).toBe(200);
    await wrong(2);
  });

  it('are counted for unknown emails too, and ignore forged forwarded addresses', async () => {
    const codes = [];
    for (let index = 0; index < 11; index++)
      codes.push((await attempt(`203.0.${index}.1, 192.0.2.77`, 'nobody@example.com', 'wrong')).code);
    expect(codes).toEqual([...Array<string>(10).fill('invalid_credentials'), 'too_many_attempts']);
  });

  it('end after a hundred for a network, whatever the addresses', async () => {
    // Most of them are only counted, as the server counts them: each real one takes a hash.
    const pool = openPool(relay.store.config('relay'));
    try {
      const attempts = new LoginThrottle(
        pool,
        readPepper(pepperFile({ DAYBOOK_DATA: relay.dataDir }), (line) => new Error(line)) as Buffer,
      );
      for (let index = 0; index < 95; index++)
        expect(await attempts.count('passwords', '2001:db8:5::/48')).toBeNull();
    } finally {
      await pool.end();
    }
    const codes = [];
    for (let index = 0; index < 7; index++)
      codes.push((await attempt(`2001:db8:5:${index}::1`, `spray-${index}@example.com`, 'wrong')).code);
    expect(codes).toEqual([
      ...Array<string>(5).fill('invalid_credentials'),
      'too_many_attempts',
      'too_many_attempts',
    ]);
    expect((await attempt('2001:db8:6::1', 'spray@example.com', 'wrong')).code).toBe('invalid_credentials');
  });
});

describe('who has had all of their attempts', () => {
  it('costs the store nothing more, until one is given back', async () => {
    const pool = openPool(relay.store.config('relay'));
    try {
      const attempts = new LoginThrottle(pool, Buffer.alloc(32));
      for (let index = 0; index < 5; index++)
        expect(await attempts.count('forgotten', 'a network')).toBeNull();
      for (let index = 0; index < 4; index++)
        expect(await attempts.count('forgotten', 'a network')).toMatchObject({ code: 'too_many_attempts' });
      const { rows } = await pool.query<{ points: number }>(
        "select points from daybook.attempt where key like 'forgotten:%' order by points desc limit 1",
      );
      expect(rows).toEqual([{ points: 6 }]);
      await attempts.refund('forgotten', 'a network');
      await attempts.refund('forgotten', 'a network');
      expect(await attempts.count('forgotten', 'a network')).toBeNull();
    } finally {
      await pool.end();
    }
  });
});

describe('what a network may ask for', () => {
  it('is five registrations an hour', async () => {
    const administrator = await setUp(relay);
    await relay.control((control) => control.definePlan('free', { requests_per_minute: 10 }, 'keep'));
    await administrator.put('/api/registration', { policy: 'open', plan: 'free' });
    const replies = await Promise.all(
      Array.from({ length: 7 }, (_, index) =>
        from('203.0.114.1').post('/api/registration', {
          email: `many-${index}@example.com`,
          password: PASSWORD,
          account_name: `many ${index}`,
        }),
      ),
    );
    expect(statuses(replies)).toEqual([202, 202, 202, 202, 202, 429, 429]);
  });

  it('is five reset links, known addresses or not', async () => {
    const replies = [];
    for (let index = 0; index < 6; index++)
      replies.push(
        await from('203.0.115.1').post('/api/password/forgotten', {
          email: index % 2 === 0 ? 'administrator@example.com' : 'nobody@example.com',
        }),
      );
    expect(replies.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202, 429]);
    expect(new Set(replies.slice(0, 5).map(({ body }) => JSON.stringify(body))).size).toBe(1);
  });
});
