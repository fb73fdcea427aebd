import { env } from 'node:process';
import { expect, test } from 'vitest';
import { type Month, parseMonth, Statements } from '#db/audit/replay/statement.ts';
import { Usage } from '#db/audit/replay/totals.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { costOf, roundCost } from '#db/pricing/cost.ts';
import { scheduleOf } from '#db/pricing/schedule.ts';

/** The long form, `COST_CALLS=10000000`, takes ten seconds. */
const CALLS = Number(env['COST_CALLS'] ?? 100_000);

test('calls of ten tokens at $0.02 per million add up exactly in statement and usage', () => {
  const rate = scheduleOf({ base: { input: 20_000_000 } }).base;
  const cost = roundCost(costOf({ input: 10, cached: 0, output: 0, reasoning: 0 }, rate));
  const event: EventOf<'request.settled'> = {
    type: 'request.settled',
    request: '01900000-0000-7000-8000-000000000001',
    account: 'Account1',
    key: 'Key00001',
    model: 'text-embedding-3-small',
    end_reason: 'completed',
    usage_source: 'provider',
    status: 200,
    input_tokens: 10,
    cache_read_tokens: 0,
    output_tokens: 0,
    reasoning_tokens: 0,
    attempt_count: 1,
    duration_ms: 5,
    cost_nanousd: cost,
  };
  const at = new Date('2026-11-23T12:00:00Z');
  const placed = { shard: 0, position: 1, at, instance: 1, event, stream: null, version: null } as Placed;
  const statements = new Statements(parseMonth('2026-11') as Month);
  const usage = new Usage();
  for (let call = 0; call < CALLS; call++) {
    statements.add(placed);
    usage.apply(event);
  }
  const exact = (BigInt(CALLS) * 10n * 20_000_000n) / 1_000_000n;
  expect(exact).toBe(BigInt(CALLS) * 200n);
  expect(statements.of('Account1')).toMatchObject({ requests: CALLS, cost_nanousd: exact });
  expect(statements.totalNanousd).toBe(exact);
  expect(usage.rows()).toMatchObject([{ requests: CALLS, input_tokens: CALLS * 10, cost_nanousd: exact }]);
});
