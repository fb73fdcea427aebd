import { createHmac } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sealTarget, unsealTarget } from '#db/alerts/destinations.ts';
import { createWebhookSecret, signedHeaders } from '#db/alerts/webhooks.ts';

const pepper = Buffer.alloc(32, 7);
const target = {
  kind: 'webhook' as const,
  url: 'https://hooks.example.com/T0/canary-path',
  secret: 'whsec_Y2FuYXJ5LXNlY3JldA==',
};

describe('a sealed target', () => {
  test('opens with the pepper and reveals nothing without it', () => {
    const sealed = sealTarget(pepper, 'Webhook1', target);
    expect(unsealTarget(pepper, 'Webhook1', sealed)).toEqual(target);
    for (const form of [sealed.toString('latin1'), sealed.toString('hex'), sealed.toString('base64')])
      expect(form).not.toMatch(/canary|hooks|whsec/);
    expect(sealTarget(pepper, 'Webhook1', target).equals(sealed)).toBe(false);
  });

  test('does not open with a changed byte, another pepper, or in another row', () => {
    const sealed = sealTarget(pepper, 'Webhook1', target);
    fc.assert(
      fc.property(fc.nat(sealed.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(sealed);
        changed[at] = (changed[at] as number) ^ change;
        expect(() => unsealTarget(pepper, 'Webhook1', changed)).toThrow();
      }),
    );
    expect(() => unsealTarget(Buffer.alloc(32, 8), 'Webhook1', sealed)).toThrow();
    expect(() => unsealTarget(pepper, 'Webhook2', sealed)).toThrow();
    expect(() => unsealTarget(pepper, 'Webhook1', sealed.subarray(0, 20))).toThrow();
  });
});

describe('a delivery to a webhook', () => {
  test("is signed as Standard Webhooks specifies, including the specification's example", () => {
    const headers = signedHeaders(
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      'msg_p5jXN8AQM9LWM0D4loKWxJek',
      1614265330,
      '{"test": 2432232314}',
    );
    expect(headers).toEqual({
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    });
  });

  test('is signed with a 256-bit secret that the receiver gets', () => {
    const secret = createWebhookSecret();
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    expect(key).toHaveLength(32);
    const signature = createHmac('sha256', key).update('a.1.b').digest('base64');
    expect(signedHeaders(secret, 'a', 1, 'b')['webhook-signature']).toBe(`v1,${signature}`);
  });
});
