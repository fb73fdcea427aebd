import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Limit, SubjectLimits } from '#db/limits/limits.ts';
import { costBound, highestCost } from '#db/pricing/bound.ts';
import type { CallPrice } from '#db/pricing/charge.ts';
import { costOf, roundCost } from '#db/pricing/cost.ts';
import { scheduleOf } from '#db/pricing/schedule.ts';
import { COMPLETION_MINIMUM_TOKENS } from '#server/limits/bounds.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';
import type { ExpectedCall } from '#server/limits/call-history.ts';
import { promptBound } from '#server/limits/prompt-bound.ts';
import { promptSize } from '#server/limits/prompt-estimate.ts';
import { Reservation } from '#server/limits/reservation.ts';
import { estimateCall, tokenLimitOf } from '#server/relay/call-estimate.ts';
import { type ParsedRequest, parseChatCompletion } from '#server/wire/request-parser.ts';

const limit = (meter: Limit['meter'], enforcement: Limit['enforcement'] = 'soft'): Limit => ({
  meter,
  window: 'day',
  cap: 1_000,
  enforcement,
  reset: 0,
});
const subject = (limits: Limit[], replyTokensMax: number | null = null): SubjectLimits => ({
  subject: 'account/abcdefgh',
  limits,
  position: 7,
  replyTokensMax,
});
const HARD = [subject([limit('tokens', 'hard')])];
const SOFT = [subject([limit('tokens')])];
const SCHEDULE = scheduleOf({
  base: { input: 2_500_000, cache_read: 1_250_000, output: 10_000_000, reasoning: 12_000_000 },
});
const PRICE: CallPrice = {
  cost: { schedule: SCHEDULE, version: 1 },
  sell: undefined,
  plan: null,
  markup: 0,
};
const MINUTE = 30_000_000;
const expecting = (replyTokens: number): ExpectedCall => ({
  replyTokens,
  bytesPerToken: null,
  isPromptDue: false,
});

function chatOf(more: object): { body: Buffer; chat: ParsedRequest } {
  const body = Buffer.from(
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...more }),
  );
  const chat = parseChatCompletion(body);
  if (!('scanned' in chat)) throw new Error(chat.message);
  return { body, chat };
}

const boundOf = (body: Buffer, { scanned }: ParsedRequest): number => promptBound(body.length, scanned.parts);

const anyLimit = fc.option(fc.nat(50_000));
const anyChoices = fc.integer({ min: 1, max: 8 });

describe('under a soft limit a request reserves its expected usage', () => {
  test('the estimated prompt and the learned completion length, capped by max_tokens per choice', () => {
    fc.assert(
      fc.property(anyLimit, anyChoices, fc.nat(10_000), (max_tokens, n, estimate) => {
        const { body, chat } = chatOf({ max_tokens, n });
        const { need, isHard } = estimateCall(body, chat, SOFT, null, expecting(estimate), MINUTE);
        const completion = Math.min(estimate, max_tokens === null ? Infinity : max_tokens * n);
        expect(isHard).toBe(false);
        expect(need.wanted).toEqual({ tokens: promptSize(body).tokens + completion, cost: 0 });
        expect(need.minimum).toEqual(need.wanted);
      }),
    );
  });

  test('and the upstream gets no token limit', () => {
    const { body, chat } = chatOf({});
    const reckoning = estimateCall(body, chat, SOFT, PRICE, expecting(500), MINUTE);
    expect(tokenLimitOf(reckoning, new Reservation([], [], reckoning.need.wanted, 0))).toBeNull();
  });
});

describe('under a hard quota', () => {
  test("a request can't use more than its reservation if the upstream honors the token limit", () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(
        anyLimit,
        anyChoices,
        share,
        share,
        fc.option(fc.integer({ min: 1, max: 9_000 })),
        (max_tokens, n, oneShare, otherShare, most) => {
          const { body, chat } = chatOf({ max_tokens, n });
          const reckoning = estimateCall(
            body,
            chat,
            [subject([limit('tokens', 'hard'), limit('cost_nanousd', 'hard')], most)],
            PRICE,
            expecting(500),
            MINUTE,
          );
          const { minimum, wanted } = reckoning.need;
          const between = (from: number, to: number, at: number): number =>
            Math.floor(from + (to - from) * at);
          const held = {
            tokens: between(minimum.tokens, wanted.tokens, oneShare),
            cost: between(minimum.cost, wanted.cost, otherShare),
          };
          const asked = tokenLimitOf(reckoning, new Reservation([], [], held, 0)) ?? max_tokens ?? Number.NaN;
          expect(asked).toBeGreaterThanOrEqual(
            Math.min(COMPLETION_MINIMUM_TOKENS, max_tokens ?? Infinity, most ?? Infinity),
          );
          if (max_tokens !== null) expect(asked).toBeLessThanOrEqual(max_tokens);
          const worst = { input: boundOf(body, chat), cached: 0, output: asked * n, reasoning: asked * n };
          expect(worst.input + worst.output).toBeLessThanOrEqual(held.tokens);
          expect(roundCost(costOf(worst, SCHEDULE.base))).toBeLessThanOrEqual(held.cost);
        },
      ),
    );
  });

  test('a request whose whole need is reserved keeps its own max_tokens', () => {
    const { body, chat } = chatOf({ max_tokens: 123 });
    const reckoning = estimateCall(body, chat, HARD, PRICE, expecting(500), MINUTE);
    expect(tokenLimitOf(reckoning, new Reservation([], [], reckoning.need.wanted, 0))).toBeNull();
  });

  test('the reserved cost covers the most expensive use of the tokens', () => {
    const { body, chat } = chatOf({ max_tokens: 100 });
    const { need } = estimateCall(body, chat, HARD, PRICE, expecting(500), MINUTE);
    expect(need.wanted.cost).toBe(
      costBound(highestCost(SCHEDULE, 0, boundOf(body, chat), MINUTE), boundOf(body, chat), 100),
    );
  });
});

test('a reservation fits into the log whatever a request asks for', () => {
  const { body, chat } = chatOf({ max_tokens: Number.MAX_SAFE_INTEGER, n: 128 });
  for (const subjects of [HARD, SOFT, []]) {
    const { need } = estimateCall(body, chat, subjects, PRICE, expecting(TOKENS_MAX), MINUTE);
    expect(need.wanted.tokens).toBeLessThanOrEqual(TOKENS_MAX);
    expect(Number.isSafeInteger(need.wanted.cost)).toBe(true);
  }
});
