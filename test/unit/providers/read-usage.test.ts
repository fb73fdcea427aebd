import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Usage } from '#db/money.ts';
import { TOKENS_BELIEVED_MAX, TOKENS_MAX } from '#server/wire/bounds.ts';
import { parseUsage } from '#server/providers/openai/usage.ts';

const oddNumber = fc.oneof(
  fc.double(),
  fc.maxSafeInteger(),
  fc.constantFrom(-1, 0.5, 2 ** 31, 2 ** 53, 1e308, Infinity, NaN),
);
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
      total_tokens: oddValue,
      input_tokens: oddValue,
      output_tokens: oddValue,
      cached_tokens: oddValue,
      cache_read_input_tokens: oddValue,
      cache_creation_input_tokens: oddValue,
      prompt_cache_hit_tokens: oddValue,
      reasoning_tokens: oddValue,
    },
    { requiredKeys: [] },
  ),
);

test('whatever a provider sends, each count is a whole number that the log can hold', () => {
  fc.assert(
    fc.property(oddUsage, (value) => {
      const usage = parseUsage(value);
      if (usage === null || usage === 'implausible') return;
      const { details, ...counts } = usage;
      for (const count of [...Object.values(counts), ...Object.values(details ?? {})]) {
        expect(count).toSatisfy((each) => Number.isInteger(each) && each >= 0 && each <= TOKENS_MAX);
      }
      expect(usage.cached + (usage.cacheWrite ?? 0)).toBeLessThanOrEqual(usage.input);
      expect(usage.reasoning).toBeLessThanOrEqual(usage.output);
    }),
    { numRuns: 2_000 },
  );
});

test('an honest report is taken as it is', () => {
  const counts = fc.record({
    input: fc.nat(TOKENS_BELIEVED_MAX / 2),
    output: fc.nat(TOKENS_BELIEVED_MAX / 2),
    part: fc.double({ min: 0, max: 1, noNaN: true }),
  });
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
      expect(parseUsage(report)).toEqual({ input, cached, output, reasoning });
    }),
  );
});

test.each([
  [
    'no details',
    { prompt_tokens: 3, completion_tokens: 2 },
    { input: 3, cached: 0, output: 2, reasoning: 0 },
  ],
  [
    'null details',
    { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: null },
    { input: 3, cached: 0, output: 2, reasoning: 0 },
  ],
  [
    'only a prompt and its total, as for embeddings',
    { prompt_tokens: 3, total_tokens: 3 },
    { input: 3, cached: 0, output: 0, reasoning: 0 },
  ],
  [
    'more cached than in the prompt, so beside it',
    { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 9 } },
    { input: 12, cached: 9, output: 2, reasoning: 0 },
  ],
  [
    'more thought than said, so beside it',
    { prompt_tokens: 3, completion_tokens: 2, completion_tokens_details: { reasoning_tokens: 9 } },
    { input: 3, cached: 0, output: 11, reasoning: 9 },
  ],
  [
    'a total that is too small to be one',
    { prompt_tokens: 3, completion_tokens: 2, total_tokens: 1 },
    { input: 3, cached: 0, output: 2, reasoning: 0 },
  ],
  [
    'a total that no reading adds up to',
    {
      prompt_tokens: 30,
      completion_tokens: 20,
      total_tokens: 77,
      completion_tokens_details: { reasoning_tokens: 5 },
    },
    { input: 30, cached: 0, output: 20, reasoning: 5 },
  ],
  [
    'nothing spent',
    { prompt_tokens: 0, completion_tokens: 0 },
    { input: 0, cached: 0, output: 0, reasoning: 0 },
  ],
])('a report with %s is understood', (_, report, expected) => {
  expect(parseUsage(report)).toEqual(expected);
});

test.each([
  ['null', null],
  ['a text', 'prompt_tokens'],
  ['an array', [{ prompt_tokens: 1 }]],
  ['an empty object', {}],
  ['a convention unknown', { tokens_in: 3, tokens_out: 2 }],
  ['only a total', { total_tokens: 5 }],
  ['a total in words', { prompt_tokens: 'three', completion_tokens: 2 }],
])('%s is no report, so that what was relayed is counted instead', (_, value) => {
  expect(parseUsage(value)).toBeNull();
});

/**
 * Usage objects in the shapes that providers send, each with the source of the shape. Numbers that the source
 * does not give are made up.
 */
const GOLDEN: readonly [
  provider: string,
  source: string,
  report: object | undefined,
  expected: Usage | null,
][] = [
  [
    'OpenAI, cached tokens within the prompt',
    'platform.openai.com/docs/guides/prompt-caching',
    {
      prompt_tokens: 2006,
      completion_tokens: 300,
      total_tokens: 2306,
      prompt_tokens_details: { cached_tokens: 1920 },
      completion_tokens_details: {
        reasoning_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
    },
    { input: 2006, cached: 1920, output: 300, reasoning: 0 },
  ],
  [
    'OpenAI, tokens written to the cache, within the prompt too',
    'platform.openai.com/docs/guides/prompt-caching, GPT-5.6 and later',
    {
      prompt_tokens: 2600,
      completion_tokens: 300,
      total_tokens: 2900,
      prompt_tokens_details: { cached_tokens: 2000, cache_write_tokens: 400 },
    },
    { input: 2600, cached: 2000, cacheWrite: 400, output: 300, reasoning: 0 },
  ],
  [
    'Azure OpenAI, reasoning within the completion',
    'learn.microsoft.com/azure/ai-services/openai/how-to/reasoning',
    {
      completion_tokens: 1843,
      prompt_tokens: 20,
      total_tokens: 1863,
      completion_tokens_details: { audio_tokens: null, reasoning_tokens: 448 },
      prompt_tokens_details: { audio_tokens: null, cached_tokens: 0 },
    },
    { input: 20, cached: 0, output: 1843, reasoning: 448 },
  ],
  [
    'DeepSeek, hits and misses make the prompt',
    'api-docs.deepseek.com, chat completion; hits in both spellings',
    {
      prompt_tokens: 1200,
      completion_tokens: 90,
      total_tokens: 1290,
      prompt_tokens_details: { cached_tokens: 1152 },
      prompt_cache_hit_tokens: 1152,
      prompt_cache_miss_tokens: 48,
      completion_tokens_details: { reasoning_tokens: 60 },
    },
    { input: 1200, cached: 1152, output: 90, reasoning: 60 },
  ],
  [
    'DeepSeek, the older report without details',
    'api-docs.deepseek.com, context caching',
    {
      prompt_tokens: 1200,
      completion_tokens: 90,
      total_tokens: 1290,
      prompt_cache_hit_tokens: 1152,
      prompt_cache_miss_tokens: 48,
    },
    { input: 1200, cached: 1152, output: 90, reasoning: 0 },
  ],
  [
    'Moonshot, cached tokens at the top',
    'platform.kimi.ai/docs/api/chat',
    { prompt_tokens: 19, completion_tokens: 21, total_tokens: 40, cached_tokens: 10 },
    { input: 19, cached: 10, output: 21, reasoning: 0 },
  ],
  [
    'Moonshot, the whole prompt cached, reported twice',
    'Bike4Mind/bike4mind#1089, live',
    {
      prompt_tokens: 2989,
      completion_tokens: 12,
      total_tokens: 3001,
      cached_tokens: 2989,
      prompt_tokens_details: { cached_tokens: 2989 },
    },
    { input: 2989, cached: 2989, output: 12, reasoning: 0 },
  ],
  [
    'xAI, reasoning beside the completion',
    'Wei-Shaw/sub2api#5771, live, with its invoice',
    {
      prompt_tokens: 10120,
      completion_tokens: 1499,
      total_tokens: 14428,
      prompt_tokens_details: { cached_tokens: 128 },
      completion_tokens_details: { reasoning_tokens: 2809 },
    },
    { input: 10120, cached: 128, output: 4308, reasoning: 2809 },
  ],
  [
    'xAI, hardly a word after much thought',
    'vercel/ai#12425, live, grok-3-mini',
    {
      prompt_tokens: 12,
      completion_tokens: 1,
      total_tokens: 399,
      completion_tokens_details: { reasoning_tokens: 386 },
    },
    { input: 12, cached: 0, output: 387, reasoning: 386 },
  ],
  [
    'xAI, no reasoning',
    'docs.x.ai, prompt caching',
    {
      prompt_tokens: 125,
      completion_tokens: 48,
      total_tokens: 173,
      prompt_tokens_details: { text_tokens: 125, audio_tokens: 0, image_tokens: 0, cached_tokens: 98 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
    { input: 125, cached: 98, output: 48, reasoning: 0 },
  ],
  [
    'Gemini, thoughts only in the total',
    'mozilla-ai/any-llm#1291, live, gemini-2.5-flash',
    { prompt_tokens: 20, completion_tokens: 151, total_tokens: 553 },
    { input: 20, cached: 0, output: 533, reasoning: 382 },
  ],
  [
    'Gemini on Vertex, thoughts at the top and beside the completion',
    'openai/openai-python#2544, live',
    {
      prompt_tokens: 2181,
      completion_tokens: 57,
      total_tokens: 2518,
      completion_tokens_details: null,
      prompt_tokens_details: null,
      reasoning_tokens: 280,
      traffic_type: 'ON_DEMAND',
    },
    { input: 2181, cached: 0, output: 337, reasoning: 280 },
  ],
  [
    'Gemini through a gateway, thoughts and no answer',
    'router-for-me/CLIProxyAPI#5733',
    {
      prompt_tokens: 21,
      completion_tokens: 0,
      total_tokens: 81,
      completion_tokens_details: { reasoning_tokens: 60 },
    },
    { input: 21, cached: 0, output: 60, reasoning: 60 },
  ],
  [
    'Anthropic, read from and written to the cache beside the input',
    'platform.claude.com/docs/build-with-claude/prompt-caching',
    { input_tokens: 50, cache_creation_input_tokens: 248, cache_read_input_tokens: 1800, output_tokens: 503 },
    { input: 2098, cached: 1800, cacheWrite: 248, output: 503, reasoning: 0 },
  ],
  [
    'Anthropic, less cached than fresh, still beside it',
    'platform.claude.com/docs/api/messages',
    { input_tokens: 5000, cache_creation_input_tokens: 0, cache_read_input_tokens: 1800, output_tokens: 503 },
    { input: 6800, cached: 1800, output: 503, reasoning: 0 },
  ],
  [
    'Anthropic through a gateway that took over the names and not the meaning',
    'decolua/9router#2658',
    {
      prompt_tokens: 50,
      completion_tokens: 503,
      total_tokens: 553,
      cache_creation_input_tokens: 248,
      cache_read_input_tokens: 1800,
    },
    { input: 2098, cached: 1800, cacheWrite: 248, output: 503, reasoning: 0 },
  ],
  [
    'Anthropic through a gateway, whose total counts the cache beside the prompt',
    'total = prompt + cached + completion',
    {
      prompt_tokens: 5000,
      completion_tokens: 503,
      total_tokens: 7303,
      prompt_tokens_details: { cached_tokens: 1800 },
    },
    { input: 6800, cached: 1800, output: 503, reasoning: 0 },
  ],
  [
    'Anthropic through LiteLLM, which adds the cache to the prompt',
    'BerriAI/litellm#9812: taken for beside it, the cache is charged twice',
    {
      prompt_tokens: 2098,
      completion_tokens: 503,
      total_tokens: 2601,
      prompt_tokens_details: { cached_tokens: 1800 },
      cache_creation_input_tokens: 248,
      cache_read_input_tokens: 1800,
    },
    { input: 2098, cached: 1800, cacheWrite: 248, output: 503, reasoning: 0 },
  ],
  [
    'the Responses convention, cached tokens within',
    'docs.x.ai, prompt caching',
    {
      input_tokens: 125,
      output_tokens: 48,
      total_tokens: 173,
      input_tokens_details: { cached_tokens: 98 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
    { input: 125, cached: 98, output: 48, reasoning: 0 },
  ],
  [
    'OpenRouter, with its own cost beside',
    'openrouter.ai/docs/use-cases/usage-accounting',
    {
      completion_tokens: 2,
      completion_tokens_details: { reasoning_tokens: 0 },
      cost: 0.95,
      cost_details: { upstream_inference_cost: 19 },
      prompt_tokens: 194,
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 100, audio_tokens: 0 },
      total_tokens: 196,
    },
    { input: 194, cached: 0, cacheWrite: 100, output: 2, reasoning: 0 },
  ],
  [
    'Mistral',
    'mistralai/client-ts#240',
    {
      prompt_tokens: 1013,
      total_tokens: 1043,
      completion_tokens: 30,
      prompt_tokens_details: { cached_tokens: 1008 },
    },
    { input: 1013, cached: 1008, output: 30, reasoning: 0 },
  ],
  [
    'Mistral, the other spellings',
    'vercel/ai#14382',
    {
      prompt_tokens: 1013,
      total_tokens: 1043,
      completion_tokens: 30,
      num_cached_tokens: 1008,
      prompt_token_details: { cached_tokens: 1008 },
    },
    { input: 1013, cached: 1008, output: 30, reasoning: 0 },
  ],
  [
    'Groq, with its times beside',
    'console.groq.com/docs/api-reference',
    {
      queue_time: 0.037,
      prompt_tokens: 18,
      prompt_time: 0.0006,
      completion_tokens: 556,
      completion_time: 0.463,
      total_tokens: 574,
      total_time: 0.464,
    },
    { input: 18, cached: 0, output: 556, reasoning: 0 },
  ],
  ['Groq, reported in x_groq alone', 'vercel/ai#1651: the chunk has no usage', undefined, null],
  [
    'vLLM, without details',
    'vllm-project/vllm-ascend#9030',
    {
      prompt_tokens: 25,
      total_tokens: 1049,
      completion_tokens: 1024,
      prompt_tokens_details: null,
      completion_tokens_details: { reasoning_tokens: 428 },
    },
    { input: 25, cached: 0, output: 1024, reasoning: 428 },
  ],
  [
    'vLLM, with details',
    'noonghunna/club-3090#1260',
    {
      prompt_tokens: 3617,
      total_tokens: 3700,
      completion_tokens: 83,
      prompt_tokens_details: { cached_tokens: 1600, created_cache_tokens: 0 },
    },
    { input: 3617, cached: 1600, output: 83, reasoning: 0 },
  ],
  [
    'Perplexity, more thought than is in the completion, and sources charged like the prompt',
    'docs.perplexity.ai, sonar-deep-research',
    {
      prompt_tokens: 33,
      completion_tokens: 7163,
      total_tokens: 7196,
      citation_tokens: 18846,
      num_search_queries: 20,
      reasoning_tokens: 95305,
    },
    { input: 18879, cached: 0, output: 102468, reasoning: 95305, details: { web_searches: 20 } },
  ],
];

test.each(GOLDEN)('%s (%s): what was used is counted once', (_provider, _source, report, expected) => {
  expect(parseUsage(report)).toEqual(expected);
});

test('whichever way a provider counts, the same call is the same usage', () => {
  const whole = fc.nat(1_000_000);
  fc.assert(
    fc.property(whole, whole, whole, whole, (fresh, cached, said, thought) => {
      const expected = { input: fresh + cached, cached, output: said + thought, reasoning: thought };
      const total_tokens = fresh + cached + said + thought;
      const parts = {
        prompt_tokens_details: { cached_tokens: cached },
        completion_tokens_details: { reasoning_tokens: thought },
      };
      const within = {
        prompt_tokens: fresh + cached,
        completion_tokens: said + thought,
        total_tokens,
        ...parts,
      };
      expect(parseUsage(within)).toEqual(expected);
      expect(
        parseUsage({ input_tokens: fresh, cache_read_input_tokens: cached, output_tokens: said + thought }),
      ).toEqual({ ...expected, reasoning: 0 });
      // Where a part that stands beside its whole is by chance as large as another, the sums say nothing.
      fc.pre(cached !== thought && cached > 0 && thought > 0);
      expect(parseUsage({ ...within, completion_tokens: said })).toEqual(expected);
      expect(parseUsage({ ...within, prompt_tokens: fresh })).toEqual(expected);
      expect(parseUsage({ ...within, prompt_tokens: fresh, completion_tokens: said })).toEqual(expected);
    }),
    { numRuns: 1_000 },
  );
});

test.each([
  ['an absurd prompt', { prompt_tokens: 1e308, completion_tokens: 7 }],
  ['an absurd output', { prompt_tokens: 5, completion_tokens: 1e308 }],
  ['an absurd total', { prompt_tokens: 5, completion_tokens: 7, total_tokens: 2_000_000_000 }],
  [
    'absurd reasoning',
    { prompt_tokens: 5, completion_tokens: 7, completion_tokens_details: { reasoning_tokens: 1e300 } },
  ],
  ['an absurd cache', { prompt_tokens: 5, completion_tokens: 7, cached_tokens: TOKENS_BELIEVED_MAX + 1 }],
  ['a negative output', { prompt_tokens: 3, completion_tokens: -2 }],
  ['a NaN', { prompt_tokens: NaN, completion_tokens: 2 }],
  ['absurd searches', { prompt_tokens: 3, completion_tokens: 2, num_search_queries: 1e6 }],
])('a report with %s is implausible', (_, report) => {
  expect(parseUsage(report)).toBe('implausible');
});

test.each([
  ['a prompt alone', { prompt_tokens: 5 }],
  ['a prompt and null', { prompt_tokens: 5, completion_tokens: null }],
])('%s is no report of a whole call', (_, report) => {
  expect(parseUsage(report)).toBeNull();
});
