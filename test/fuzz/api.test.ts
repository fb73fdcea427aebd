import { expect, test } from 'vitest';
import { randomFrom } from '../chaos/random.ts';
import { fuzzApi } from './api.ts';

const REQUESTS_PER_OPERATION = 1;

test(
  'each operation of the management API replies as OpenAPI says, and changes nothing without an event',
  { timeout: 300_000 },
  async () => {
    const report = await fuzzApi(
      randomFrom(1),
      'database',
      (requests, operations) => requests < REQUESTS_PER_OPERATION * operations,
    );
    expect(report.violations).toEqual([]);
    expect(report.succeeded).toBeGreaterThan(report.operations / 4);
    expect(report.events).toBeGreaterThan(0);
  },
);
