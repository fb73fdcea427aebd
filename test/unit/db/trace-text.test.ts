import { expect, test } from 'vitest';
import { describeEvent } from '#db/audit/commands/trace-text.ts';
import { accepted, settled } from '../../support/log/log-writer.ts';

test('a settled request is described with its usage by class and what its reply states', () => {
  const event = settled(accepted(), {
    input_tokens: 86_003,
    cache_read_tokens: 80_000,
    cache_write_tokens: 6_000,
    usage_details: { cache_write_1h_tokens: 2_000, web_searches: 1 },
    answered_model: 'claude-opus-4-5-20251101',
    finish_reason: 'end_turn',
    service_tier: 'standard',
    provider_request: 'req_011',
    stated_cost_nanousd: 87_515_000,
  });
  const text = describeEvent(event);
  for (const part of [
    '86003 input tokens (80000 cached, 6000 written to a cache), 20 output tokens (0 reasoning), ',
    'cache_write_1h_tokens 2000, web_searches 1, usage source: provider; ',
    'answered by claude-opus-4-5-20251101, finish reason end_turn, service tier standard, ',
    'request req_011 of the provider, cost by the provider 87515000 nano-dollars (0.087515 dollars); ',
  ])
    expect(text).toContain(part);
  expect(describeEvent(settled(accepted()))).not.toMatch(/written|answered|by the provider/);
});
