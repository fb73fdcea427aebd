import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Me } from '#server/dashboard/contract-session.ts';
import { addMember, signIn } from '../support/dashboard.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

describe('signing in', () => {
  let relay: TestRelay;
  beforeAll(async () => {
    relay = await startRelay({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  });
  afterAll(() => relay[Symbol.asyncDispose]());

  it('lets in who has the password, and tells them who they are', async () => {
    const ana = await addMember(relay, { email: 'ana@example.com' });
    const again = await signIn(relay, 'ANA@example.com ');
    expect(again.cookie).not.toBe(ana.cookie);
    const { status, body } = await again.get<Me>('/api/me');
    expect(status).toBe(200);
    expect(body).toMatchObject({ member: { email: 'ana@example.com', role: 'member', has_totp: false }, base_url: relay.baseUrl });
    expect(body.account.name).toBe('of ana@example.com');
  });
});
