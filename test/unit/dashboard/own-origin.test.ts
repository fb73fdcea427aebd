import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { checkOrigin, isOwnOrigin } from '#server/dashboard/gate.ts';

const post = (headers: Record<string, string>): IncomingMessage =>
  ({ method: 'POST', headers }) as unknown as IncomingMessage;
const PUBLIC = 'https://daybook.example';

test('a page at the public URL is same-origin, also behind a proxy that changes Host', () => {
  const headers = { origin: PUBLIC, host: '10.0.0.7:4000' };
  expect(isOwnOrigin(headers, PUBLIC)).toBe(true);
  expect(checkOrigin(post(headers), PUBLIC)).toBeNull();
  expect(checkOrigin(post({ origin: 'http://10.0.0.7:4000', host: '10.0.0.7:4000' }), PUBLIC)).toBeNull();
});

test('no other page is, whatever the public address', () => {
  for (const origin of [
    'https://elsewhere.example',
    'http://daybook.example',
    'https://daybook.example:8443',
    'null',
  ]) {
    expect([origin, checkOrigin(post({ origin, host: '10.0.0.7:4000' }), PUBLIC)?.code]).toEqual([
      origin,
      'cross_site_request',
    ]);
  }
  expect(checkOrigin(post({ host: '10.0.0.7:4000' }), PUBLIC)?.code).toBe('cross_site_request');
  expect(isOwnOrigin({ host: '10.0.0.7:4000' }, undefined)).toBe(false);
});
