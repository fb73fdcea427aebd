import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KeyTerms, PlanTerms } from '#db/events/events.ts';
import { readRestriction, type RestrictOptions } from '#server/cli/keys/key-restrict.ts';
import { readTerms } from '#server/cli/accounts/terms-file.ts';
import { DecisionError } from '#server/decide/decision.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'daybook-terms-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

/** A file with this as its text or, unless it is one, as its JSON. */
function file(content: unknown): string {
  const at = path.join(directory, 'plan.json');
  writeFileSync(at, typeof content === 'string' ? content : JSON.stringify(content));
  return at;
}

/** What is said of what is wrong. */
function problem(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    if (error instanceof DecisionError && error.code === 'invalid') return error.message;
    throw error;
  }
  return '';
}

describe('a file of terms', () => {
  const quota = { meter: 'tokens', window: 'day', limit: 1 };
  const origin = 'must be "none" or an origin such as https://app.example.com or https://*.example.com';

  test('is read whole', () => {
    const terms = {
      models: ['a*'],
      routes: ['/v1/models'],
      origins: ['none'],
      requests_per_minute: 0,
      concurrent_requests: 10_000,
      quotas: [{ ...quota, enforcement: 'hard' }],
    };
    expect(readTerms(PlanTerms, file(terms))).toEqual(terms);
    expect(readTerms(PlanTerms, file({}))).toEqual({});
  });

  test.each<[string, unknown, string]>([
    ['a limit below nothing', { quotas: [{ ...quota, limit: -1 }] }, 'quotas[0].limit must be at least 0.'],
    [
      'half a unit',
      { quotas: [quota, { ...quota, meter: 'requests', limit: 0.5 }] },
      'quotas[1].limit must be a whole number.',
    ],
    [
      'a limit that is missing',
      { quotas: [{ meter: 'tokens', window: 'day' }] },
      'quotas[0].limit must be a whole number.',
    ],
    ['a limit in words', { requests_per_minute: '10' }, 'requests_per_minute must be a whole number.'],
    [
      'more than can be counted',
      { tokens_per_minute: 2 ** 60 },
      'tokens_per_minute must be at most 9007199254740991.',
    ],
    [
      'more calls than can run',
      { concurrent_requests: 10_001 },
      'concurrent_requests must be at most 10000.',
    ],
    [
      'a meter that is none',
      { quotas: [{ ...quota, meter: 'dollars' }] },
      'quotas[0].meter must be one of requests, tokens, cost_nanousd.',
    ],
    ['a quota that is there twice', { quotas: [quota, quota] }, 'quotas names a meter and window twice.'],
    [
      'a quota too many',
      { quotas: Array.from({ length: 13 }, () => quota) },
      'quotas must have at most 12 entries.',
    ],
    ['a reply of nothing', { reply_tokens_max: 0 }, 'reply_tokens_max must be at least 1.'],
    ['an unknown field', { request_per_minute: 3 }, 'request_per_minute is not a known field.'],
    ['an unknown field within', { quotas: [{ ...quota, by: 'user' }] }, 'quotas[0].by is not a known field.'],
    ['a field of keys alone', { networks: ['10.0.0.0/8'] }, 'networks is not a known field.'],
    [
      'a route that is none',
      { routes: ['/v1/images'] },
      [
        'routes[0] must be one of /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses',
        '/v1/messages, /v1/moderations, /v1/rerank, /v1/images/generations, /v1/images/edits',
        '/v1/images/variations, /v1/audio/transcriptions, /v1/audio/translations, /v1/audio/speech',
        '/v1/files, /v1/batches, /v1/models, /v1/usage, /v1/requests, /v1/live.',
      ].join(', '),
    ],
    ['an origin without its scheme', { origins: ['none', 'app.example.com'] }, `origins[1] ${origin}.`],
    ['an origin with a path', { origins: ['https://app.example.com/'] }, `origins[0] ${origin}.`],
    ['a wildcard for a part of a name', { origins: ['https://app*.example.com'] }, `origins[0] ${origin}.`],
    ['a model for a list', { models: 'gpt-4o' }, 'models must be a list.'],
    ['a model without a name', { models: [''] }, 'models[0] must be a model name or a pattern with *.'],
    ['a list for the whole', [], 'it must be an object.'],
  ])('with %s is refused in one line that names the field', (_, terms, message) => {
    expect(problem(() => readTerms(PlanTerms, file(terms)))).toBe(`plan.json: ${message}`);
  });

  test('that is none is refused by its name', () => {
    expect(problem(() => readTerms(PlanTerms, file('{')))).toBe('plan.json is not JSON.');
    expect(problem(() => readTerms(PlanTerms, '/nowhere/plan.json'))).toBe(
      "/nowhere/plan.json can't be read (ENOENT).",
    );
  });

  test('of a key may name networks, and each of them has to be one', () => {
    expect(readTerms(KeyTerms, file({ networks: ['10.0.0.0/8', '::1'] }))).toEqual({
      networks: ['10.0.0.0/8', '::1'],
    });
    for (const wrong of ['10.0.0.0/33', 'localhost', '10.0.0', '', 7]) {
      expect(problem(() => readTerms(KeyTerms, file({ networks: ['::1', wrong] })))).toBe(
        'plan.json: networks[1] must be an address or a network such as 10.0.0.0/8.',
      );
    }
  });
});

describe('the options of a restriction', () => {
  const read = (options: Partial<RestrictOptions>) => readRestriction({ window: 'keep', ...options });

  test('set what they name, and nothing else', () => {
    expect(read({})).toEqual({ set: {}, drop: [], clear: false, expiresAt: undefined, windows: 'keep' });
    expect(
      read({
        models: 'a, b*',
        networks: '::1',
        requestsPerMinute: '0',
        quota: ['tokens/day=5', 'requests/hour=7:hard'],
        clear: true,
        window: 'reset',
      }),
    ).toEqual({
      set: {
        models: ['a', 'b*'],
        networks: ['::1'],
        requests_per_minute: 0,
        quotas: [
          { meter: 'tokens', window: 'day', limit: 5, enforcement: 'soft' },
          { meter: 'requests', window: 'hour', limit: 7, enforcement: 'hard' },
        ],
      },
      drop: [],
      clear: true,
      expiresAt: undefined,
      windows: 'reset',
    });
  });

  test('take away what is "any", and end the expiry with "never"', () => {
    expect(read({ models: 'any', quota: ['any'], tokensPerMinute: 'any', expires: 'never' })).toMatchObject({
      set: {},
      drop: ['models', 'tokens_per_minute', 'quotas'],
      expiresAt: null,
    });
    expect(read({ expires: '2099-01-31T00:00:00Z' }).expiresAt).toEqual(new Date(Date.UTC(2099, 0, 31)));
  });

  test("let a key read its account's calls, or only its own again", () => {
    expect(read({ reads: 'account' })).toMatchObject({ set: { reads: 'account' }, drop: [] });
    expect(read({ reads: 'key', file: file({ reads: 'account' }) })).toMatchObject({ drop: ['reads'] });
  });

  test('go before the file', () => {
    const terms = file({ models: ['a'], origins: ['none'], concurrent_requests: 4 });
    expect(read({ file: terms, models: 'b', concurrent: 'any' })).toMatchObject({
      set: { models: ['b'], origins: ['none'] },
      drop: ['concurrent_requests'],
    });
  });

  test.each<[Partial<RestrictOptions>, string]>([
    [
      { networks: '::1,10.0.0.0/33' },
      '--networks: networks[1] must be an address or a network such as 10.0.0.0/8.',
    ],
    [{ requestsPerMinute: 'many' }, '--requests-per-minute: requests_per_minute must be a whole number.'],
    [{ concurrent: '-1' }, '--concurrent: concurrent_requests must be a whole number.'],
    [{ models: '' }, '--models: models[0] must be a model name or a pattern with *.'],
    [
      { quota: ['tokens=5'] },
      '--quota: "tokens=5" is not a quota such as tokens/day=100000 or requests/hour=50:hard.',
    ],
    [
      { quota: ['tokens/minute=5'] },
      '--quota: quotas[0].window must be one of hour, day, week, month, lifetime.',
    ],
    [{ quota: ['tokens/day=5', 'tokens/day=6'] }, '--quota: quotas names a meter and window twice.'],
    [
      { quota: ['tokens/day=5:strict'] },
      '--quota: quotas[0].enforcement must be one of soft, hard, observe.',
    ],
    [{ expires: 'soon' }, '"soon" is not a time such as 2027-01-31T00:00:00Z.'],
  ])('%j is refused in one line that names the option', (options, message) => {
    expect(problem(() => read(options))).toBe(message);
  });
});
