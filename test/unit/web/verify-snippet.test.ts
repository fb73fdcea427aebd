import { describe, expect, test } from 'vitest';
import { createWebhookSecret, signedHeaders } from '#db/alerts/webhooks.ts';
import { VERIFY_SNIPPET } from '../../../web/features/alerts/verify-snippet.ts';

type Verify = (headers: Record<string, string>, body: string | Buffer, secret: string) => boolean;
const load = async (): Promise<Verify> => {
  const module = (await import(`data:text/javascript,${encodeURIComponent(VERIFY_SNIPPET)}`)) as {
    isFromDaybook: Verify;
  };
  return module.isFromDaybook;
};

describe('the lines that receivers are given to check a delivery', async () => {
  const isFromDaybook = await load();
  const secret = createWebhookSecret();
  const nowS = Math.floor(Date.now() / 1_000);
  const body = '{"type":"quota.raised","data":{"account_name":"Zoë"}}';
  const headers = signedHeaders(secret, 'delivery-1', nowS, body);

  test('take what the worker has signed', () => {
    expect(isFromDaybook(headers, Buffer.from(body), secret)).toBe(true);
    expect(
      isFromDaybook(
        { ...headers, 'webhook-signature': `v1,AAAA ${headers['webhook-signature']}` },
        body,
        secret,
      ),
    ).toBe(true);
  });

  test.each<[string, Record<string, string>, string, string]>([
    ['another body', headers, body.replace('quota', 'Quota'), secret],
    ['another secret', headers, body, createWebhookSecret()],
    ['another id', { ...headers, 'webhook-id': 'delivery-2' }, body, secret],
    ['an old one', signedHeaders(secret, 'delivery-1', nowS - 3_600, body), body, secret],
    ['no signature', { 'webhook-id': 'delivery-1', 'webhook-timestamp': String(nowS) }, body, secret],
    ['no headers', {}, body, secret],
  ])('refuse %s', (_what, given, of, by) => expect(isFromDaybook(given, of, by)).toBe(false));
});
