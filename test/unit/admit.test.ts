import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ACCOUNT_CONCURRENT_MAX, COMPLETION_ESTIMATE_TOKENS, TOKENS_MAX } from '#server/bounds.ts';
import { Refusal } from '#server/errors.ts';
import { Admission, estimateHold, type Hold, promptEstimate } from '#server/relay/admit.ts';

function hold(admission: Admission, account: string, tokens: number): Hold {
  const admitted = admission.admit(account, tokens);
  if (admitted instanceof Refusal) throw new Error(admitted.message);
  return admitted;
}

describe('what an account holds', () => {
  test('is the sum of what was admitted and not released, whatever is released how often', () => {
    const step = fc.record({ account: fc.constantFrom('a', 'b'), tokens: fc.nat(1_000), release: fc.option(fc.nat()) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const admission = new Admission();
        const made: { account: string; tokens: number; hold: Hold; isOpen: boolean }[] = [];
        for (const { account, tokens, release } of steps) {
          const chosen = release === null ? undefined : made[release % Math.max(1, made.length)];
          if (chosen) {
            chosen.hold.release();
            chosen.isOpen = false;
          } else {
            made.push({ account, tokens, hold: hold(admission, account, tokens), isOpen: true });
          }
          for (const each of ['a', 'b']) {
            const open = made.filter((one) => one.account === each && one.isOpen);
            expect(admission.held(each)).toEqual({ requests: open.length, tokens: open.reduce((sum, one) => sum + one.tokens, 0) });
          }
        }
      }),
    );
  });

  test('can be looked at without changing it', () => {
    const admission = new Admission();
    hold(admission, 'a', 5);
    admission.held('a').tokens = 0;
    expect(admission.held('a')).toEqual({ requests: 1, tokens: 5 });
  });
});

describe('an account at its bound', () => {
  test('is refused with a 429, others are not, and one release makes room for one', () => {
    const admission = new Admission();
    const holds = Array.from({ length: ACCOUNT_CONCURRENT_MAX }, () => hold(admission, 'a', 1));
    expect(admission.admit('a', 1)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
    expect(admission.held('a')).toEqual({ requests: ACCOUNT_CONCURRENT_MAX, tokens: ACCOUNT_CONCURRENT_MAX });
    expect(admission.admit('b', 1)).not.toBeInstanceOf(Refusal);

    holds[0]?.release();
    holds[0]?.release();
    expect(admission.admit('a', 1)).not.toBeInstanceOf(Refusal);
    expect(admission.admit('a', 1)).toBeInstanceOf(Refusal);
  });
});

describe('a hold', () => {
  test('covers the prompt and the completion that the client allows, and fits into the log', () => {
    const limit = fc.option(fc.oneof(fc.nat(5_000), fc.maxSafeInteger().map(Math.abs)));
    fc.assert(
      fc.property(fc.oneof(fc.nat(), fc.nat(Number.MAX_SAFE_INTEGER)), limit, (bytes, completionLimit) => {
        const tokens = estimateHold(bytes, completionLimit);
        expect(tokens).toBe(Math.min(TOKENS_MAX, promptEstimate(bytes) + Math.min(completionLimit ?? Infinity, COMPLETION_ESTIMATE_TOKENS)));
        expect(Number.isInteger(tokens) && tokens >= 0 && tokens <= TOKENS_MAX).toBe(true);
      }),
    );
  });

  test('counts about four bytes for a token, rounded up', () => {
    expect([0, 1, 4, 5, 400_000].map(promptEstimate)).toEqual([0, 1, 1, 2, 100_000]);
    expect(estimateHold(400, 10)).toBe(110);
    expect(estimateHold(400, null)).toBe(100 + COMPLETION_ESTIMATE_TOKENS);
  });
});
