import { afterAll, beforeAll, expect, test } from 'vitest';
import { withControl } from '#server/control/control.ts';
import { applyDifferences } from '#server/control/reconcile/apply.ts';
import { loadReconciliation, recordReconciliation } from '#server/control/reconcile/record.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type Booked, linesOf } from '../support/providers/billing-provider.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { STANDARD } from './plants.ts';
import { startWorld, type World } from './world.ts';

/** What becomes of a comparison: its report, its event, and the corrections of its differences. */

let world: World;
beforeAll(async () => {
  world = await startWorld('chatcmpl-apply');
});
afterAll(async () => world?.[Symbol.asyncDispose]());

test('differences are applied once, and the next comparison agrees', async () => {
  await world.call('chat', { parts: { input: 900, output: 80 }, ending: 'cut' });
  await world.call('chat', { parts: { input: 700, cache_read: 300, output: 50 } });
  const lines = world.provider.ledger.flatMap((booked, index) =>
    linesOf(
      booked,
      STANDARD,
      index === world.provider.ledger.length - 1 ? { parts: { input: 1_000, output: 50 } } : {},
    ),
  );
  const [first] = world.provider.ledger as [Booked];
  const before = new Date(first.at.getTime() - 3_600_000);
  lines.push(...linesOf({ ...first, id: 'unknown-1', at: before }, STANDARD));
  const report = await world.compare(lines);
  const wrong = report.differences.filter(({ class: name }) => name !== 'missing_here');
  expect(wrong.map(({ class: name }) => name)).toEqual(['unknown_ending', 'token_class']);
  await projectAll(world.relay.store);
  await withControl(world.relay.store, 'test', async (control, client) => {
    await recordReconciliation(client, control, report);
    const apply = () =>
      applyDifferences(client, control, {
        id: report.reconciliation,
        differences: wrong.map(({ id }) => id),
        reason: 'the bill',
      });
    expect(await apply()).toMatchObject({ corrected: 2, repeated: 0 });
    expect(await apply()).toMatchObject({ corrected: 0, repeated: 2, amount_nanousd: '0' });
    const missing = report.differences.find(({ class: name }) => name === 'missing_here');
    await expect(
      applyDifferences(client, control, {
        id: report.reconciliation,
        differences: [missing?.id ?? 0],
        reason: 'the bill',
      }),
    ).rejects.toThrow('no recorded figure is wrong');
  });
  const again = await world.compare(lines);
  expect(again.differences.map(({ class: name }) => name)).toEqual(['missing_here']);
  expect(again.totals.unexplained_nanousd).toBe('0');
});

test('a stored report that was changed is refused', async () => {
  const report = await world.compare(world.provider.ledger.flatMap((booked) => linesOf(booked, STANDARD)));
  await withControl(world.relay.store, 'test', async (control, client) => {
    await recordReconciliation(client, control, report);
    expect((await loadReconciliation(client, report.reconciliation)).report).toEqual(report);
    const owner = await connectAs(world.relay.store, 'owner');
    try {
      await owner.query(
        `update daybook.reconciliation_report set report = replace(report, 'chat', 'chut')
          where report like $1`,
        [`%${report.reconciliation}%`],
      );
    } finally {
      await owner.end();
    }
    await expect(loadReconciliation(client, report.reconciliation)).rejects.toThrow('was changed');
  });
});
