import { describe, expect, test } from 'vitest';
import type { Conditions } from '#db/pricing/parts.ts';
import { type Circumstances, rateAt, scheduleOf } from '#db/pricing/schedule.ts';

const at = (time: string): number => Math.floor(Date.parse(time) / 60_000);
const CALL: Circumstances = {
  minute: at('2026-11-23T12:00:00Z'),
  inputTokens: 1_000,
  serviceTier: undefined,
  upstream: undefined,
};

/** Whether a rule with these conditions applies to a call. */
function applies(when: Conditions, call: Partial<Circumstances>): boolean {
  const schedule = scheduleOf({ base: { input: 1 }, rules: [{ when, rate: { input: 2 } }] });
  return rateAt(schedule, { ...CALL, ...call }).input === 2;
}

describe('a rule applies', () => {
  test.each<[string, Conditions, Partial<Circumstances>, boolean]>([
    ['above its tokens', { input_tokens_above: 200_000 }, { inputTokens: 200_001 }, true],
    ['not at its tokens', { input_tokens_above: 200_000 }, { inputTokens: 200_000 }, false],
    ['to its service tier', { service_tier: 'batch' }, { serviceTier: 'batch' }, true],
    ['not to another', { service_tier: 'batch' }, { serviceTier: 'default' }, false],
    ['not to an unknown one', { service_tier: 'batch' }, {}, false],
    ['to its upstream', { upstream: 'azure' }, { upstream: 'azure' }, true],
    ['not to another upstream', { upstream: 'azure' }, { upstream: 'openai' }, false],
    ['from its first minute', { valid_from: '2026-11-23T12:00:00Z' }, {}, true],
    ['not a minute earlier', { valid_from: '2026-11-23T12:01:00Z' }, {}, false],
    ['not from the middle of a minute', { valid_from: '2026-11-23T12:00:30Z' }, {}, false],
    ['until before its last', { valid_to: '2026-11-23T12:01:00Z' }, {}, true],
    ['not at its end', { valid_to: '2026-11-23T12:00:00Z' }, {}, false],
    ['within its hours', { hours: { from: '12:00', to: '13:00' } }, {}, true],
    ['not at their end', { hours: { from: '11:00', to: '12:00' } }, {}, false],
    [
      'over midnight, before it',
      { hours: { from: '16:30', to: '00:30' } },
      { minute: at('2026-11-23T23:59:00Z') },
      true,
    ],
    [
      'over midnight, after it',
      { hours: { from: '16:30', to: '00:30' } },
      { minute: at('2026-11-24T00:29:00Z') },
      true,
    ],
    [
      'not after hours over midnight',
      { hours: { from: '16:30', to: '00:30' } },
      { minute: at('2026-11-24T00:30:00Z') },
      false,
    ],
    [
      'where all of its conditions hold',
      { service_tier: 'batch', input_tokens_above: 10 },
      { serviceTier: 'batch' },
      true,
    ],
    [
      'not where one of them does not',
      { service_tier: 'batch', input_tokens_above: 1_000 },
      { serviceTier: 'batch' },
      false,
    ],
  ])('%s', (_, when, call, expected) => expect(applies(when, call)).toBe(expected));
});

test('the first rule that applies counts, and the base rate has its other parts', () => {
  const schedule = scheduleOf({
    base: { input: 10, cache_read: 1, output: 20, web_search: 5 },
    rules: [
      { when: { input_tokens_above: 500 }, rate: { input: 30 } },
      { when: { input_tokens_above: 100 }, rate: { input: 40, output: 50 } },
    ],
  });
  expect(rateAt(schedule, CALL)).toMatchObject({
    input: 30,
    cache_read: 1,
    cache_write_5m: 30,
    output: 20,
    web_search: 5,
  });
});

test('a class without a price has that of the class it falls back to, and other parts have none', () => {
  expect(scheduleOf({ base: { input: 1, cache_write_5m: 2, output: 3 } }).base).toEqual({
    input: 1,
    cache_read: 1,
    cache_write_5m: 2,
    cache_write_1h: 2,
    output: 3,
    reasoning: 3,
    audio_input: 1,
    audio_output: 3,
    image_input: 1,
    image_output: 3,
    characters: null,
    media_hour: null,
    image: null,
    web_search: null,
    tool_call: null,
    per_request: 0,
    minimum: 0,
    inputMax: 2,
    outputMax: 3,
  });
});
