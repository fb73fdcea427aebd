import { afterAll, beforeAll, expect, test } from 'vitest';
import { canRunFront } from '../support/deploy/front.ts';
import { databaseGround, type Ground } from './ground.ts';
import { openRelays, type Relays, restartEach } from './rolling.ts';

let ground: Ground;
let relays: Relays;

beforeAll(async () => {
  ground = await databaseGround();
  relays = await openRelays(ground, { count: 2, oneAddressEach: canRunFront }, 2_000);
});

afterAll(async () => {
  await relays?.[Symbol.asyncDispose]();
  await ground?.[Symbol.asyncDispose]();
});

test(
  'a rolling restart behind a load balancer fails no call and cuts no reply',
  { timeout: 240_000 },
  async () => {
    const verdict = await restartEach(relays, { n: 2, rate: 14, streamEvery: 2, checkMs: 200 });
    expect(verdict).toMatchObject({ failed: 0, cut: 0, abandoned: 0, violations: [] });
    expect(verdict.calls).toBeGreaterThan(0);
  },
);

// The relays now run with the default LAME_DUCK_MS, which fits the checks of that configuration.
test.skipIf(!canRunFront)(
  'a restart behind HAProxy with deploy/haproxy.cfg fails no call and cuts no reply',
  { timeout: 240_000 },
  async () => {
    const verdict = await restartEach(relays, { n: 1, rate: 14, streamEvery: 2, front: 'haproxy' });
    expect(verdict).toMatchObject({ failed: 0, cut: 0, abandoned: 0, violations: [] });
    expect(verdict.calls).toBeGreaterThan(0);
  },
);
