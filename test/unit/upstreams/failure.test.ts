import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Attempt } from '#db/events/upstream-events.ts';
import { classifyFailure, type FailureCause, causeCode } from '#server/relay/failure.ts';
import { RETRY_AFTER_MAX_MS } from '#server/upstreams/bounds.ts';

const TRANSPORT: FailureCause[] = ['unreachable', 'timed_out', 'cut', 'unreadable', 'error_event'];
const OTHERS: FailureCause[] = ['unsupported', 'reply_begun'];
const anyProblem = fc.oneof(
  fc.integer({ min: 100, max: 999 }),
  fc.constantFrom<FailureCause>(...TRANSPORT, ...OTHERS),
);
const anyWait = fc.option(fc.nat(1_000_000_000));

/**
 * The verdict in short: e retry elsewhere, l retry the same later, what it blames, + where another credential
 * may help.
 */
const inShort = (problem: FailureCause, retryAfterMs: number | null = null): string => {
  const { retryElsewhere, retrySame, blames, avoidUpstream, openForMs } = classifyFailure({
    cause: problem,
    retryAfterMs,
  });
  const retries = `${retryElsewhere ? 'e' : '-'}${retrySame ? 'l' : '-'}`;
  return `${retries} ${blames}${avoidUpstream ? '' : '+'} ${openForMs}`;
};

test.each([
  [
    'what the upstream says of the request is true anywhere',
    [400, 413, 415, 422, 405, 409, 410, 451, 499],
    '-- null null',
  ],
  ['a model that is not there may be elsewhere, and that is no failing', [404], 'e- null null'],
  ['a credential that is refused leaves the upstream to its others', [401, 402, 403], 'e- credential+ 60000'],
  ['a credential that is over its limit is left alone for a little', [429], 'el credential+ 5000'],
  [
    'an upstream that fails is no better with another credential',
    [500, 502, 503, 504, 529, 599, 999, 408, 425, 101, 302, 304, ...TRANSPORT],
    'el upstream null',
  ],
  [
    'everything that has begun is not begun again, since it may be charged',
    ['reply_begun'],
    '-- upstream null',
  ],
  ['what one protocol can not say another may', ['unsupported'], 'e- null null'],
] as [string, FailureCause[], string][])('%s', (_, problems, expected) => {
  expect(problems.map((problem) => `${problem}: ${inShort(problem)}`)).toEqual(
    problems.map((problem) => `${problem}: ${expected}`),
  );
});

test('a wait that an upstream asks for is believed, up to a bound', () => {
  expect([inShort(429, 7_000), inShort(503, 7_000), inShort(500, 2_000)]).toEqual([
    'el credential+ 7000',
    'el upstream 7000',
    'el upstream 2000',
  ]);
  expect(classifyFailure({ cause: 429, retryAfterMs: 86_400_000 }).openForMs).toBe(RETRY_AFTER_MAX_MS);
});

test('a client error is never retried or blamed on an upstream, and every cause fits the log', () => {
  fc.assert(
    fc.property(anyProblem, anyWait, (problem, retryAfterMs) => {
      const verdict = classifyFailure({ cause: problem, retryAfterMs });
      const ofClient =
        typeof problem === 'number' &&
        problem >= 400 &&
        problem < 500 &&
        ![401, 402, 403, 404, 408, 425, 429].includes(problem);
      if (ofClient) expect(verdict).toMatchObject({ retryElsewhere: false, retrySame: false, blames: null });
      // What null is to blame for excludes no one, and who waits blames someone.
      if (verdict.blames === null) expect([verdict.openForMs, verdict.retrySame]).toEqual([null, false]);
      expect(verdict.openForMs ?? 0).toBeLessThanOrEqual(RETRY_AFTER_MAX_MS);
      expect(
        Attempt.safeParse({ upstream: 'one', outcome: causeCode(problem), duration_ms: 0 }).success,
      ).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});
