import { Client } from 'pg';
import { expect, test } from 'vitest';
import { RECOVERY_TIMEOUT_MS } from '#db/bounds.ts';
import { withTimeout } from '#db/postgres/connect.ts';
import { recoverInstance, registerInstance } from '#db/instances/instance.ts';
import type { PlanTerms } from '#db/events/events.ts';
import { projectPage, startEpoch } from '#db/projections/project.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { openRequests } from '../support/faults.ts';
import { startFleet } from '../support/fleet.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { foldQuotas } from '../support/projections/projection-quotas.ts';
import { until } from '../support/relay.ts';
import { startUpstream } from '../support/upstream/upstream.ts';

const plan = (tokens: number): PlanTerms => ({
  quotas: [
    { meter: 'tokens', window: 'day', limit: tokens, enforcement: 'soft' },
    { meter: 'requests', window: 'hour', limit: 1_000, enforcement: 'hard' },
    { meter: 'cost_nanousd', window: 'month', limit: 10 ** 9, enforcement: 'soft' },
  ],
});
const OF_KEY: PlanTerms = {
  quotas: [{ meter: 'tokens', window: 'week', limit: 10 ** 9, enforcement: 'soft' }],
};
/** Windows as text, so that those of enforcement and those of the log can be compared. */
const WINDOWS = (table: string, used: string): string =>
  `select concat_ws(' ', subject, meter, window_kind, window_start, reset_position) as window,
      ${used} as used, held
    from ${table}
    where window_kind >= 2 and (${used} > 0 or held > 0) order by 1`;

test('quotas of the log equal enforced charges across plans, growing holds and a dead instance', async () => {
  await using upstream = await startUpstream();
  await using fleet = await startFleet({ upstreams: [upstream], instances: 2 });
  await fleet.control((control) =>
    control.setPrice('s:*', {
      base: {
        input: 1_000_000,
        cache_read: 500_000,
        output: 4_000_000,
        reasoning: 4_000_000,
      },
    }),
  );
  const { secret, key } = await fleet.tenant('charged', plan(1_000_000));
  const call = (instance: number, script: string, stream = true) =>
    fleet.chat(instance, {
      key: secret,
      body: { model: `s:${script}`, stream, messages: [{ role: 'user', content: 'Hello' }] },
    });
  const many = () =>
    Promise.all(
      Array.from({ length: 8 }, (_, number) =>
        call(number, number % 3 === 0 ? 'status=500' : 'tokens=30', number % 2 === 0),
      ),
    );

  await many();
  await fleet.control((control) =>
    control.restrictKey(key, {
      set: OF_KEY,
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  const grown = call(1, 'tokens=3000,batch=8,every=1ms');
  await fleet.control((control) => control.definePlan('charged', plan(2_000_000), 'keep'));
  await many();
  await fleet.control((control) => control.definePlan('charged', plan(3_000_000), 'reset'));
  await many();
  await grown;
  await fleet.settledLog();
  await fleet.settledUsage(secret);
  for (const [meter, amount] of [
    ['tokens', -40],
    ['tokens', 7],
    ['requests', -2],
  ] as const)
    await fleet.control((control) =>
      control.adjustQuotas('charged', {
        meter,
        amount,
        window: null,
        key,
        adjustment: null,
        reason: 'test',
      }),
    );

  await fleet.settledLog();
  const hung = call(0, 'tokens=5000,every=10ms');
  const running = await fleet.waitFor((seen) => openRequests(seen).length > 0);
  const dead = running.findLast(({ event }) => event.type === 'request.accepted')?.instance as number;
  const client = new Client(withTimeout(fleet.store.config('relay'), RECOVERY_TIMEOUT_MS));
  await client.connect();
  try {
    await recoverInstance(client, dead, await registerInstance(client, 'another server'));
  } finally {
    await client.end();
  }
  await hung;
  // It takes a place anew, and goes on.
  await until(
    () => call(0, 'tokens=30'),
    ({ status }) => status === 200,
    'the server',
  );
  const log = await fleet.settledLog();
  const types = new Set(log.map(({ event }) => event.type));
  for (const type of ['request.extended', 'request.abandoned'] as const) expect(types).toContain(type);

  // A server tells the store of windows that were begun anew meanwhile when there is occasion, and at its
  // end.
  await Promise.all([fleet.stop(0), fleet.stop(1)]);
  const worker = await connectAs(fleet.store, 'worker');
  try {
    const epoch = await startEpoch(worker);
    await until(
      () => projectPage(worker, { projections: PROJECTIONS, epoch, pageEvents: 13 }),
      (page) => page.kind === 'projected' && page.range.upTo === page.head,
      'the projections',
    );
    const { rows } = await worker.query<{ window: string; used: string; held: string }>(
      WINDOWS('projection.quota_window', 'used'),
    );
    expect((await worker.query(WINDOWS('daybook.allowance', 'used + overdrawn + adjusted'))).rows).toEqual(
      rows,
    );
    const judged = [...foldQuotas(log).values()];
    const { rows: all } = await worker.query<{ row: { begins_at: string } }>(
      'select to_jsonb(w) as row from projection.quota_window w',
    );
    expect(all.map(({ row }) => ({ ...row, begins_at: new Date(row.begins_at) }))).toEqual(
      expect.arrayContaining(judged),
    );
    expect(all).toHaveLength(judged.length);
    // Each of the account's three quotas before and after the reset, and the key's own.
    expect(all).toHaveLength(7);
    expect(judged.every(({ held }) => held === 0)).toBe(true);
  } finally {
    await worker.end();
  }
});
