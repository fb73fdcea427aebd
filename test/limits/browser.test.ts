import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HAS_BROWSER, launchBrowser, type Site, startSite } from '../support/browser/browser.ts';
import { type Fleet, startFleet, type Tenant } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** What a page can read of a reply. */
type Read = {
  status: number;
  text: string;
  requestId: string | null;
  retryAfter: string | null;
  remaining: string | null;
};

describe.skipIf(!HAS_BROWSER)('a web page', () => {
  let upstream: ScriptedUpstream;
  let fleet: Fleet;
  let browser: Browser;
  let permitted: Site;
  let other: Site;
  let tenant: Tenant;

  beforeAll(async () => {
    upstream = await startUpstream();
    fleet = await startFleet({ upstreams: [upstream] });
    permitted = await startSite();
    other = await startSite();
    tenant = await fleet.tenant('web', {
      origins: [permitted.origin],
      requests_per_minute: 20,
      quotas: [{ meter: 'requests', window: 'day', limit: 20, enforcement: 'hard' }],
    });
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    await permitted?.[Symbol.asyncDispose]();
    await other?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
    await upstream?.close();
  });

  /** What a page of this site gets when its script makes a call. */
  async function callFrom(
    site: Site,
    path: string,
    body: object | null,
    secret = tenant.secret,
  ): Promise<Read> {
    const page = await browser.newPage();
    try {
      await page.goto(site.origin);
      const url = `http://127.0.0.1:${fleet.ports[1]}${path}`;
      return await page.evaluate<Read, { url: string; secret: string; text: string | null }>(
        async ({ url: address, secret: key, text }) => {
          const reply = await fetch(address, {
            method: text === null ? 'GET' : 'POST',
            headers: {
              authorization: `Bearer ${key}`,
              'content-type': 'application/json',
              'x-stainless-lang': 'js',
            },
            body: text,
          });
          const told = (name: string): string | null => reply.headers.get(name);
          return {
            status: reply.status,
            text: await reply.text(),
            requestId: told('x-request-id'),
            retryAfter: told('retry-after'),
            remaining: told('x-ratelimit-remaining-requests'),
          };
        },
        { url, secret, text: body && JSON.stringify(body) },
      );
    } finally {
      await page.close();
    }
  }

  const HELLO = { model: 's:tokens=3', messages: [{ role: 'user', content: 'Hello' }] };
  const CHAT = '/v1/chat/completions';

  test('enforces CORS in this browser', async () => {
    const page = await browser.newPage();
    await page.goto(permitted.origin);
    await expect(
      page.evaluate((address) => fetch(address).then(({ status }) => status), other.origin),
    ).rejects.toThrow('Failed to fetch');
    await page.close();
  });

  test('of a permitted origin makes requests, whole and streamed', async () => {
    const whole = await callFrom(permitted, CHAT, HELLO);
    expect(whole).toMatchObject({
      status: 200,
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    });
    expect(whole.text).toContain('tok0 tok1 tok2');
    const streamed = await callFrom(permitted, CHAT, { ...HELLO, stream: true });
    expect(streamed.status).toBe(200);
    expect(streamed.text.trimEnd()).toMatch(/data: \[DONE\]$/);
    expect(await callFrom(permitted, '/v1/usage', null)).toMatchObject({
      status: 200,
      text: expect.stringContaining('"used":2') as string,
    });
    expect((await callFrom(permitted, '/v1/models', null)).status).toBe(200);
  });

  test('of another origin gets a readable 403', async () => {
    for (const [path, body] of [
      [CHAT, HELLO],
      [CHAT, { ...HELLO, stream: true }],
      ['/v1/usage', null],
      ['/v1/models', null],
    ] as const) {
      const reply = await callFrom(other, path, body);
      expect(reply).toMatchObject({
        status: 403,
        requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      });
      const { error } = JSON.parse(reply.text) as { error: { code: string; message: string } };
      expect(error.code).toBe('origin_not_allowed');
      expect(error.message).toContain(other.origin);
    }
  });

  test('reads Retry-After from a 429 and the remaining limit from each reply', async () => {
    const { secret } = await fleet.tenant('hasty', { requests_per_minute: 0 });
    const refused = await callFrom(permitted, CHAT, HELLO, secret);
    expect(refused).toMatchObject({ status: 429, remaining: '0' });
    const { secret: busy } = await fleet.tenant('busy', { concurrent_requests: 1 });
    const leaving = new AbortController();
    const running = fleet.chat(0, {
      key: busy,
      body: { ...HELLO, model: 's:end=hang@head' },
      signal: leaving.signal,
    });
    await upstream.ledger.until((rows) => rows.at(-1)?.model === 's:end=hang@head');
    expect(await callFrom(permitted, CHAT, HELLO, busy)).toMatchObject({ status: 429, retryAfter: '1' });
    leaving.abort();
    expect((await running).aborted).toBe(true);
    expect((await callFrom(permitted, CHAT, HELLO)).remaining).toMatch(/^\d+$/);
  });
});
