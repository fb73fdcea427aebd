import { expect, test } from 'vitest';
import { rolling } from './rolling.ts';

test(
  'a rolling restart behind a load balancer fails no call and cuts no reply',
  { timeout: 120_000 },
  async () => {
    const verdict = await rolling({ n: 2, relays: 2, rate: 40, checkMs: 200, lameDuckMs: 2_000 });
    expect(verdict).toMatchObject({ failed: 0, cut: 0, abandoned: 0, violations: [] });
    expect(verdict.calls).toBeGreaterThan(0);
  },
);
