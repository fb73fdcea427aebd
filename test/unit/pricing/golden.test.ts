import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Usage } from '#db/money.ts';
import { chargeOf } from '#db/pricing/charge.ts';
import { tokensOf } from '#db/pricing/cost.ts';
import { TOKEN_CLASSES } from '#db/pricing/parts.ts';
import { scheduleOf } from '#db/pricing/schedule.ts';
import { COST_FIXTURES, COST_FOLDER } from '../../support/providers/cost-fixtures.ts';
import { type GoldenPrice, readGoldenPrice } from '../../support/providers/golden-price.ts';

/**
 * Replies of providers at their published prices. The arithmetic is written out beside each reply, in
 * `NAME.cost.yaml`; here its lines are checked against the reply, and the cost against their sum.
 */

/** `input  80,000 × $0.50 per million = 40,000,000` */
const LINE = /^(\w+) +([\d,]+)(?: ms)? × \$([\d.]+) (per million|per hour|each) += +([\d,.]+)$/;
/** Nano-dollars of one dollar, per unit of the line. */
const PER = { 'per million': 1_000_000n, 'per hour': 3_600_000n, each: 1n };
const DIGITS = 12;

/** A decimal number as an integer of 10^-12. */
function decimal(text: string): bigint {
  const [whole = '', rest = ''] = text.replaceAll(',', '').split('.');
  return BigInt(whole + rest.padEnd(DIGITS, '0'));
}

/** The units of each part that a line must have. */
function unitsOf(usage: Usage): Record<string, number> {
  const { web_searches, tool_calls, images, characters, media_ms } = usage.details ?? {};
  const units = {
    ...tokensOf(usage),
    web_search: web_searches,
    tool_call: tool_calls,
    image: images,
    characters,
    media_hour: media_ms,
  };
  return Object.fromEntries(Object.entries(units).filter(([, count]) => count)) as Record<string, number>;
}

describe.each(COST_FIXTURES)('$name', ({ name, usage, facts }) => {
  const golden: GoldenPrice = readGoldenPrice(name);
  const charge = chargeOf(
    { cost: { schedule: scheduleOf(golden.terms), version: 1 }, sell: undefined, plan: null, markup: 0 },
    usage,
    { minute: golden.minute, serviceTier: facts.serviceTier ?? undefined, upstream: undefined },
  );

  test('costs the sum of its arithmetic to the nano-dollar', () => {
    const { arithmetic, unpriced } = parse(
      readFileSync(path.join(COST_FOLDER, `${name}.cost.yaml`), 'utf8'),
    ) as { arithmetic: string; unpriced?: string[] };
    const lines = arithmetic.trim().split('\n');
    const sum = lines.pop()?.replace(/^sum += +/, '') ?? '';
    const units = unitsOf(usage);
    let total = 0n;
    for (const line of lines) {
      const [, part = '', count = '', dollars = '', per = '', product = ''] = LINE.exec(line) ?? [];
      expect(part, line).not.toBe('');
      if (part === 'per_request') expect(count).toBe('1');
      else expect(`${units[part]}`, line).toBe(count.replaceAll(',', ''));
      delete units[part];
      const exact = BigInt(count.replaceAll(',', '')) * decimal(dollars) * 1_000_000_000n;
      expect(exact % PER[per as keyof typeof PER], line).toBe(0n);
      expect(exact / PER[per as keyof typeof PER], line).toBe(decimal(product));
      total += decimal(product);
    }
    expect(Object.keys(units)).toEqual(unpriced ?? []);
    expect(decimal(sum)).toBe(total);
    expect(BigInt(golden.cost)).toBe((total + 10n ** BigInt(DIGITS) / 2n) / 10n ** BigInt(DIGITS));
    expect(charge.charge).toBe(golden.cost);
    expect(charge.unpriced ?? []).toEqual(unpriced ?? []);
  });

  test.runIf(golden.equalsStated)('costs what the provider states in its reply', () => {
    expect(charge.charge).toBe(facts.statedCost);
  });
});

test('the replies are of at least 14 providers, and have each class of tokens', () => {
  expect(new Set(COST_FIXTURES.map(({ name }) => name.split('-', 1)[0])).size).toBeGreaterThanOrEqual(14);
  const used = new Set(COST_FIXTURES.flatMap(({ usage }) => Object.keys(unitsOf(usage))));
  expect(TOKEN_CLASSES.filter((part) => !used.has(part))).toEqual([]);
});
