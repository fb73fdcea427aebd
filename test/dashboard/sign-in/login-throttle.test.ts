import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPool } from '#db/postgres/connect.ts';
import { pepperFile, readPepper } from '#db/secrets/pepper.ts';
import { readConfig } from '#server/process/config.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { readKnownDevice } from '#server/sign-in/known-device.ts';
import type { Reach } from '#server/sign-in/origin.ts';
import {
  type AdmittedAttempt,
  type PasswordAttempt,
  PasswordThrottle,
} from '#server/sign-in/password-throttle.ts';
import { LoginThrottle } from '#server/sign-in/throttle.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import {
  addMember,
  type ApiReply,
  PASSWORD,
  setUp,
  signIn,
  statuses,
  visit,
} from '../../support/dashboard.ts';
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
  from(address, port).post('/api/v1/session', { email, password });

const pepper = (): Buffer =>
  readPepper(pepperFile({ DAYBOOK_DATA: relay.dataDir }), (line) => new Error(line)) as Buffer;

/** A throttle on the servers' counts that notes its delays instead of waiting. */
async function withThrottle(
  work: (throttle: PasswordThrottle, delays: number[]) => Promise<void>,
): Promise<void> {
  const pool = openPool(relay.store.config('relay'));
  const delays: number[] = [];
  try {
    await work(
      new PasswordThrottle(pool, pepper(), (ms) => {
        delays.push(ms);
        return Promise.resolve();
      }),
      delays,
    );
  } finally {
    await pool.end();
  }
}

const somewhere = { address: '203.0.113.7', network: '203.0.113.0/24', device: null };

describe('wrong passwords', () => {
  it('delay further ones of the email and address, up to 15 s, and no other email or address', async () => {
    await withThrottle(async (throttle, delays) => {
      const ana = { ...somewhere, email: 'ana@example.com' };
      for (let index = 0; index < 10; index++) await throttle.admit(ana);
      expect(delays).toEqual([]);
      for (let index = 0; index < 8; index++) await throttle.admit(ana);
      expect(delays).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
      delays.length = 0;
      await throttle.admit({ ...ana, address: '203.0.113.8' });
      await throttle.admit({ ...ana, email: 'bo@example.com' });
      expect(delays).toEqual([]);
    });
  });

  it('are counted over all servers, and not for the right password', async () => {
    const { email } = await addMember(relay);
    const there = Number(new URL(other.baseUrl).port);
    for (let index = 0; index < 10; index++)
      expect((await attempt('192.0.2.1', email, 'wrong', index % 2 === 0 ? relay.port : there)).code).toBe(
        'invalid_credentials',
      );
    await withThrottle(async (throttle, delays) => {
      const same = { email, address: '192.0.2.1', network: '192.0.2.0/24', device: null };
      await (await admitted(throttle, same)).refund();
      expect(delays).toEqual([250]);
      expect((await attempt('192.0.2.1', email, PASSWORD)).status).toBe(200);
      await admitted(throttle, same);
      expect(delays).toEqual([250]);
    });
  });

  it('of a hundred made-up emails from one address keep no other person of its network out', async () => {
    const { email } = await addMember(relay);
    const known = await signIn(relay, email);
    await withThrottle(async (throttle, delays) => {
      const place = { address: '198.51.100.9', network: '198.51.100.0/24', device: null };
      for (let index = 0; index < 100; index++)
        await throttle.admit({ ...place, email: `spray-${index}@example.com` });
      // From the fifty-first on, doubled with every ten: the same person waits, at most so long.
      expect(delays).toHaveLength(50);
      expect(delays.at(-1)).toBe(4_000);
      delays.length = 0;
      await (await admitted(throttle, { ...place, email })).refund();
      expect(delays).toEqual([8_000]);
      // Another address of the network, and a known browser at the same address, don't wait.
      delays.length = 0;
      await (await admitted(throttle, { ...place, email, address: '198.51.100.10' })).refund();
      await (await admitted(throttle, { ...place, email, device: 'known' })).refund();
      expect(delays).toEqual([]);
    });
    expect((await attempt('198.51.100.10', email, PASSWORD)).status).toBe(200);
    const again = from('198.51.100.9');
    again.device = known.device;
    expect((await again.post('/api/v1/session', { email, password: PASSWORD })).status).toBe(200);
  });

  it('that wait are few: of one person two, of one address eight; known devices still get in', async () => {
    const { email } = await addMember(relay);
    const pool = openPool(relay.store.config('relay'));
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let waiting = 0;
    const throttle = new PasswordThrottle(pool, pepper(), () => {
      waiting++;
      return released;
    });
    const place = { address: '2001:db8:5:1', network: '2001:db8:5::/48', device: null };
    const codes = async (attempts: readonly PasswordAttempt[]): Promise<string[]> => {
      const results = await Promise.all(
        attempts.map(async (each) => {
          const result = throttle.admit(each);
          return Promise.race([result, untilWaiting()]);
        }),
      );
      return results.map((result) => (result instanceof ApiError ? result.code : 'waits'));
    };
    const untilWaiting = (): Promise<null> =>
      new Promise((resolve) => {
        setTimeout(() => resolve(null), 1_000);
      });
    try {
      await withThrottle(async (counting) => {
        for (let index = 0; index < 60; index++)
          await counting.admit({ ...place, email: `other-${index}@example.com` });
      });
      const many = Array.from({ length: 5 }, () => ({ ...place, email }));
      expect((await codes(many)).toSorted()).toEqual([
        ...Array<string>(3).fill('too_many_attempts'),
        'waits',
        'waits',
      ]);
      const others = Array.from({ length: 10 }, (_, index) => ({ ...place, email: `e${index}@example.com` }));
      expect((await codes(others)).filter((code) => code === 'waits')).toHaveLength(6);
      expect(waiting).toBe(8);
      expect(await codes([{ ...place, email, device: 'known' }])).toEqual(['waits']);
      expect(waiting).toBe(8);
    } finally {
      release();
      await pool.end();
    }
  });

  it('are counted for unknown emails too, and ignore forged forwarded addresses', async () => {
    for (let index = 0; index < 10; index++)
      expect((await attempt(`203.0.${index}.1, 192.0.2.77`, 'nobody@example.com', 'wrong')).code).toBe(
        'invalid_credentials',
      );
    await withThrottle(async (throttle, delays) => {
      await throttle.admit({
        email: 'nobody@example.com',
        address: '192.0.2.77',
        network: '192.0.2.0/24',
        device: null,
      });
      expect(delays).toEqual([250]);
    });
  });
});

async function admitted(throttle: PasswordThrottle, tried: PasswordAttempt): Promise<AdmittedAttempt> {
  const result = await throttle.admit(tried);
  if (result instanceof ApiError) throw new Error(result.code);
  return result;
}

describe('the cookie of a known device', () => {
  it('is for one email, of this installation, and ends', async () => {
    const { email } = await addMember(relay);
    const { device } = await signIn(relay, email);
    const request = { headers: { cookie: device }, socket: {} } as unknown as IncomingMessage;
    const reach = { PUBLIC_URL: undefined, trustedProxies: null, tls: null } as unknown as Reach;
    const now = Date.now();
    const read = (of = email, key = pepper(), at = now): string | null =>
      readKnownDevice(request, reach, key, of, at);
    expect(read()).toMatch(/^[0-9A-Za-z_-]{16}$/);
    expect(read('someone@example.com')).toBeNull();
    expect(read(email, Buffer.alloc(32))).toBeNull();
    expect(read(email, pepper(), now + 181 * 24 * 60 * 60 * 1000)).toBeNull();
  });
});

describe('who has had all of their attempts', () => {
  it('costs the store nothing more, until they are reset', async () => {
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
      await attempts.reset('forgotten', 'a network');
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
    await administrator.put('/api/v1/registration', { policy: 'open', plan: 'free' });
    const replies = await Promise.all(
      Array.from({ length: 7 }, (_, index) =>
        from('203.0.114.1').post('/api/v1/registration', {
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
        await from('203.0.115.1').post('/api/v1/password/forgotten', {
          email: index % 2 === 0 ? 'administrator@example.com' : 'nobody@example.com',
        }),
      );
    expect(replies.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202, 429]);
    expect(new Set(replies.slice(0, 5).map(({ body }) => JSON.stringify(body))).size).toBe(1);
  });
});
