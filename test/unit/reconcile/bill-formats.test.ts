import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Bill, BillLine } from '#db/reconcile/bill/line.ts';
import { readBill, writeBill } from '#db/reconcile/bill/ndjson.ts';
import { type BillFormat, type BillTerms, joinBills, parseBill } from '#db/reconcile/bill/read-bill.ts';

/** Bills as the providers document them, with the arithmetic beside them. */

const FIXTURES = path.join(import.meta.dirname, '../../fixtures/billing');
const read = (name: string, format: BillFormat, terms: BillTerms = {}): Bill =>
  parseBill(readFileSync(path.join(FIXTURES, name), 'utf8'), format, terms);

const cell = (value: unknown): unknown => (value instanceof Date ? value.toISOString() : value);
const rows = ({ lines }: Bill, ...names: (keyof BillLine)[]): unknown[][] =>
  lines.map((line) => names.map((name) => cell(line[name])));
const sum = ({ lines }: Bill): bigint => lines.reduce((total, { cost }) => total + (cost ?? 0n), 0n);
const interval = ({ from, to, timeZone }: Bill): unknown[] => [cell(from), cell(to), timeZone];

describe('OpenAI', () => {
  test('costs are exact where JSON numbers are not, and their remainder is stated', () => {
    const bill = read('openai-costs.json', 'openai-costs');
    expect(rows(bill, 'kind', 'model', 'part', 'credential', 'quantity', 'cost')).toEqual([
      ['usage', 'gpt-5.2', 'input', 'key_live', null, 130_804_380n],
      // 0.00046599999999999995 is 466,000 nano-dollars less 5e-20 dollars.
      ['usage', 'gpt-5.2', 'cache_read', 'key_live', null, 466_000n],
      ['usage', 'gpt-5.2', 'output', 'key_live', 125_000n, 1_250_000_000n],
      ['usage', 'Image models', null, null, null, 60_000_000n],
      ['credit', null, null, null, null, -500_000_000n],
    ]);
    expect(bill.rounded).toEqual([{ currency: 'USD', lines: 1, remainder: '-0.00000000000000000005' }]);
    expect(sum(bill)).toBe(941_270_380n);
    // A day without costs belongs to the interval.
    expect(interval(bill)).toEqual(['2026-10-01T00:00:00.000Z', '2026-10-03T00:00:00.000Z', 'UTC']);
  });

  test('usage has each token in one class, in the shape with uncached tokens and in the older one', () => {
    const bill = read('openai-usage.json', 'openai-usage');
    expect(rows(bill, 'model', 'serviceTier', 'part', 'quantity', 'requests')).toEqual([
      ['gpt-5.2', 'default', 'requests', 5n, 5n],
      ['gpt-5.2', 'default', 'input', 200n, null], // 1000 − 800
      ['gpt-5.2', 'default', 'cache_read', 800n, null],
      ['gpt-5.2', 'default', 'audio_input', 30n, null],
      ['gpt-5.2', 'default', 'output', 500n, null],
      ['gpt-5.2', 'default', 'audio_output', 20n, null],
      ['gpt-6-luna', 'batch', 'requests', 3n, 3n],
      ['gpt-6-luna', 'batch', 'input', 700n, null], // 900 − 150 − 50
      ['gpt-6-luna', 'batch', 'cache_read', 400n, null],
      ['gpt-6-luna', 'batch', 'cache_write_5m', 150n, null],
      ['gpt-6-luna', 'batch', 'audio_input', 150n, null],
      ['gpt-6-luna', 'batch', 'image_input', 50n, null],
      ['gpt-6-luna', 'batch', 'output', 240n, null],
      ['gpt-6-luna', 'batch', 'audio_output', 60n, null],
    ]);
    expect(bill.unsupported).toEqual([
      {
        place: 'usage page 1 bucket 1 result 2',
        reason: 'The usage of 50 tokens written to a cache for 12 hours has no unit here.',
      },
    ]);
  });

  test('usage of other routes is in the units of their parts', () => {
    const bill = read('openai-usage-audio.json', 'openai-usage');
    expect(rows(bill, 'model', 'part', 'quantity')).toEqual([
      ['whisper-1', 'requests', 1n],
      ['whisper-1', 'media_hour', 20_000n],
      ['tts-1', 'requests', 1n],
      ['tts-1', 'characters', 45n],
      ['dall-e-3', 'requests', 2n],
      ['dall-e-3', 'image', 2n],
    ]);
    expect(bill.unsupported.map(({ reason }) => reason)).toEqual([
      'The usage of 1024 bytes of vector stores has no unit here.',
    ]);
  });
});

describe('Anthropic', () => {
  test('usage distinguishes the lifetimes of cache writes', () => {
    const bill = read('anthropic-usage.json', 'anthropic-usage');
    expect(rows(bill, 'part', 'quantity')).toEqual([
      ['input', 1_500n],
      ['cache_read', 200n],
      ['cache_write_5m', 500n],
      ['cache_write_1h', 1_000n],
      ['output', 500n],
      ['web_search', 10n],
    ]);
    expect(bill.lines[0]).toMatchObject({
      model: 'claude-sonnet-4-20250514',
      credential: 'apikey_01Rj2N8SVvo6BePZj99NhmiT',
      serviceTier: 'standard',
      cost: null,
    });
    expect(interval(bill)).toEqual(['2026-10-01T00:00:00.000Z', '2026-10-02T00:00:00.000Z', 'UTC']);
  });

  test('costs in cents become nano-dollars exactly', () => {
    const bill = read('anthropic-costs.json', 'anthropic-costs');
    expect(rows(bill, 'model', 'serviceTier', 'part', 'cost')).toEqual([
      ['claude-sonnet-4-20250514', 'standard', 'input', 1_237_891_200n],
      ['claude-sonnet-4-20250514', 'batch', 'cache_write_1h', 5_000_000n],
      [null, null, 'web_search', 100_000_000n],
    ]);
    expect(bill.rounded).toEqual([]);
  });
});

describe('OpenRouter', () => {
  test('activity has reasoning apart from output, and states costs that others bill', () => {
    const bill = read('openrouter-activity.json', 'openrouter-activity');
    expect(rows(bill, 'model', 'part', 'quantity', 'requests', 'cost')).toEqual([
      ['openai/gpt-4.1', null, null, 5n, 15_000_000n],
      ['openai/gpt-4.1', 'input', 50n, null, null],
      ['openai/gpt-4.1', 'output', 100n, null, null], // 125 − 25
      ['openai/gpt-4.1', 'reasoning', 25n, null, null],
      ['meta-llama/llama-4-scout', null, null, 1n, 14_850n],
      ['meta-llama/llama-4-scout', 'input', 64n, null, null],
      ['meta-llama/llama-4-scout', 'output', 98n, null, null],
    ]);
    expect(bill.unsupported).toEqual([
      {
        place: 'activity page 1 item 1',
        reason: 'The provider of your own key bills its 0.012 USD, not OpenRouter.',
      },
    ]);
    expect(interval(bill)).toEqual(['2026-10-01T00:00:00.000Z', '2026-10-03T00:00:00.000Z', 'UTC']);
  });

  test('the export has each generation with its id and moment', () => {
    const bill = read('openrouter-export.csv', 'openrouter-csv');
    expect(rows(bill, 'requestId', 'from', 'credential', 'model', 'part', 'quantity', 'cost')).toEqual([
      ...[
        [null, null, 12_300_000n],
        ['input', 10_389n, null],
        ['output', 137n, null],
      ].map((rest) => [
        'gen-1790812817-billableAAA',
        '2026-10-01T00:00:17.713Z',
        'live, main',
        'openai/gpt-oss-120b',
        ...rest,
      ]),
      ...[
        [null, null, 1_485n],
        ['input', 100n, null],
        ['output', 30n, null],
        ['reasoning', 20n, null],
      ].map((rest) => [
        'gen-1790812900-billableBBB',
        '2026-10-01T00:01:40.000Z',
        'live',
        'deepseek/deepseek-v4.1-flash-20260910:free',
        ...rest,
      ]),
    ]);
    expect(bill.lines[0]).toMatchObject({ place: 'line 2', from: bill.lines[0]?.to, requests: 1n });
  });
});

describe('files of other providers', () => {
  test('FOCUS has charges of one service, their kinds and converted units', () => {
    const bill = read('focus.csv', 'focus', { service: 'Azure OpenAI' });
    expect(bill.provider).toBe('Contoso');
    expect(rows(bill, 'kind', 'model', 'credential', 'part', 'quantity', 'cost', 'currency')).toEqual([
      ['usage', 'gpt-5.2', 'key-1', 'input', 1_500n, 2_500_000n, 'EUR'],
      ['discount', 'gpt-5.2', 'key-1', null, null, -500_000n, 'EUR'],
      ['tax', null, null, null, null, 380_000n, 'EUR'],
      ['usage', 'sku-ptu', null, null, null, 12_000_000_000n, 'EUR'],
    ]);
    expect(bill.unsupported).toEqual([
      {
        place: 'line 5',
        reason: 'The quantity 24 PTU Hours of "Provisioned" has no part and unit here; its cost is imported.',
      },
    ]);
  });

  test('plain CSV has its own columns, and days of its own time zone', () => {
    const bill = read('plain.csv', 'csv', {
      provider: 'mistral',
      timeZone: 'Europe/Paris',
      columns: {
        date: 'Day',
        model: 'Model',
        credential: 'Key',
        quantity: 'Tokens',
        part: 'Class',
        cost: 'Amount',
      },
    });
    expect(rows(bill, 'kind', 'model', 'part', 'quantity', 'cost', 'from', 'to')).toEqual([
      // The clocks go back: the day has 25 hours.
      ...[
        ['usage', 'mistral-large', 'input', 1_000n, 2_000_000n],
        ['usage', 'mistral-large', 'output', 200n, 1_200_000n],
      ].map((row) => [...row, '2026-10-24T22:00:00.000Z', '2026-10-25T23:00:00.000Z']),
      ['refund', null, null, null, -1_500_000_000n, '2026-10-25T23:00:00.000Z', '2026-10-26T23:00:00.000Z'],
    ]);
    expect(bill).toMatchObject({ provider: 'mistral', timeZone: 'Europe/Paris', source: 'csv' });
  });
});

test('a bill is the same after it was written to a file and read again', () => {
  const bill = joinBills([
    read('openai-costs.json', 'openai-costs'),
    read('openai-usage.json', 'openai-usage'),
  ]);
  expect(readBill([...writeBill(bill)].join(''))).toEqual(bill);
  expect(bill.lines).toHaveLength(19);
});
