import { expect, test } from 'vitest';
import { canRunFront } from '../support/deploy/front.ts';
import { rolling } from './rolling.ts';

test(
  'a rolling restart behind a load balancer fails no call and cuts no reply',
  { timeout: 240_000 },
  async () => {
    const verdict = await rolling({ n: 2, relays: 2, rate: 20, checkMs: 200, lameDuckMs: 2_000 });
    expect(verdict).toMatchObject({ failed: 0, cut: 0, abandoned: 0, violations: [] });
    expect(verdict.calls).toBeGreaterThan(0);
  },
);

test.skipIf(!canRunFront)(
  'a restart behind HAProxy with deploy/haproxy.cfg fails no call and cuts no reply',
  { timeout: 240_000 },
  async () => {
    const verdict = await rolling({ n: 1, relays: 2, rate: 20, front: 'haproxy' });
    expect(verdict).toMatchObject({ failed: 0, cut: 0, abandoned: 0, violations: [] });
    expect(verdict.calls).toBeGreaterThan(0);
  },
);
