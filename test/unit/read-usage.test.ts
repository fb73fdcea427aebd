import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { TOKENS_MAX } from '#server/bounds.ts';
import { readUsage } from '#server/providers/openai.ts';

const oddNumber = fc.oneof(fc.double(), fc.maxSafeInteger(), fc.constantFrom(-1, 0.5, 2 ** 31, 2 ** 53, 1e308, Infinity, NaN));
const oddValue = fc.oneof(oddNumber, fc.string(), fc.constantFrom(null, undefined, true, [], {}, '7'));
const oddDetails = fc.oneof(oddValue, fc.record({ cached_tokens: oddValue, reasoning_tokens: oddValue }));
const oddUsage = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      prompt_tokens: oddValue,
      completion_tokens: oddValue,
      prompt_tokens_details: oddDetails,
      completion_tokens_details: oddDetails,
    },
    { requiredKeys: [] },
  ),
);

test('whatever a provider sends, each count is a whole number that the log can hold', () => {
  fc.assert(
    fc.property(oddUsage, (value) => {
      const usage = readUsage(value);
      if (usage === null) return;
      for (const count of Object.values(usage)) {
        expect(count).toSatisfy((each) => Number.isInteger(each) && each >= 0 && each <= TOKENS_MAX);
      }
      expect(usage.cached).toBeLessThanOrEqual(usage.input);
      expect(usage.reasoning).toBeLessThanOrEqual(usage.output);
    }),
    { numRuns: 2_000 },
  );
});

test('an honest report is taken as it is', () => {
  const counts = fc.record({ input: fc.nat(TOKENS_MAX), output: fc.nat(TOKENS_MAX), part: fc.double({ min: 0, max: 1, noNaN: true }) });
  fc.assert(
    fc.property(counts, ({ input, output, part }) => {
      const cached = Math.floor(input * part);
      const reasoning = Math.floor(output * part);
      const report = {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: input + output,
        prompt_tokens_details: { cached_tokens: cached, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: reasoning },
      };
      expect(readUsage(report)).toEqual({ input, cached, output, reasoning });
    }),
  );
});

test.each([
  ['no details', { prompt_tokens: 3, completion_tokens: 2 }, { input: 3, cached: 0, output: 2, reasoning: 0 }],
  ['null details', { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: null }, { input: 3, cached: 0, output: 2, reasoning: 0 }],
  ['only a prompt, as for embeddings', { prompt_tokens: 3 }, { input: 3, cached: 0, output: 0, reasoning: 0 }],
  ['more cached than sent', { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 9 } }, { input: 3, cached: 3, output: 2, reasoning: 0 }],
  ['nothing spent', { prompt_tokens: 0, completion_tokens: 0 }, { input: 0, cached: 0, output: 0, reasoning: 0 }],
])('a report with %s is understood', (_, report, expected) => {
  expect(readUsage(report)).toEqual(expected);
});

test.each([
  ['null', null],
  ['a text', 'prompt_tokens'],
  ['an array', [{ prompt_tokens: 1 }]],
  ['an empty object', {}],
  ['another convention', { input_tokens: 3, output_tokens: 2 }],
  ['a negative total', { prompt_tokens: 3, completion_tokens: -2 }],
  ['a total in words', { prompt_tokens: 'three', completion_tokens: 2 }],
  ['NaN', { prompt_tokens: NaN, completion_tokens: 2 }],
])('%s is no report, so that what was relayed is counted instead', (_, value) => {
  expect(readUsage(value)).toBeNull();
});
