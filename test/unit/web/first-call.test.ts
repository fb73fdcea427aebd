import { describe, expect, test } from 'vitest';
import { API_ERRORS } from '#server/errors/api-errors.ts';
import type { Frame, FrameOf } from '#server/contract/frames.ts';
import { adviceFor } from '../../../web/features/first-call/explain.ts';
import { follow, type SeenRequest } from '../../../web/features/first-call/seen-requests.ts';

const ACCOUNT = 'ours0000';
const at = '2027-01-01T00:00:00.000Z';
const request = (number: number): string => `00000000-0000-7000-8000-${String(number).padStart(12, '0')}`;
const call = (number: number, account = ACCOUNT) => ({
  request: request(number),
  account,
  key: 'key00000',
  model: 'daybook-demo',
});
const started = (number: number, account?: string): Frame => ({
  type: 'started',
  route: '/v1/chat/completions',
  position: number,
  at,
  ...call(number, account),
  sse: true,
  body_bytes: 1,
  hold_tokens: 1,
});
const progress = (number: number, tokens: number): Frame => ({
  type: 'progress',
  ...call(number),
  output_tokens: tokens,
});
const settled = (number: number): FrameOf<'settled'> => ({
  type: 'settled',
  position: number,
  at,
  ...call(number),
  outcome: 'completed',
  end_reason: 'completed',
  usage_source: 'provider',
  output_tokens: 9,
});

const after = (...frames: Frame[]): readonly SeenRequest[] => follow([], frames, ACCOUNT);

describe('the requests on the First call page', () => {
  test('start, count tokens and end; a late progress frame changes nothing', () => {
    expect(after(started(1), progress(1, 4))).toMatchObject([
      { request: request(1), outputTokens: 4, ending: null },
    ]);
    const ended = after(started(1), progress(1, 4), settled(1));
    expect(ended).toMatchObject([{ outputTokens: 9, ending: { end_reason: 'completed' } }]);
    expect(follow(ended, [progress(1, 5)], ACCOUNT)).toBe(ended);
  });

  test('are the newest five of the account, including rejected ones', () => {
    const refused: Frame = {
      type: 'refused',
      route: '/v1/chat/completions',
      position: 8,
      at,
      request: request(8),
      account: ACCOUNT,
      key: 'key00000',
      error_code: 'rate_limit_exceeded',
      status: 429,
      rejected_count: 1,
    };
    const seen = after(
      ...[1, 2, 3, 4, 5, 6].map((number) => started(number)),
      started(7, 'theirs00'),
      refused,
    );
    expect(seen.map((each) => each.request)).toEqual([8, 6, 5, 4, 3].map(request));
    expect(seen[0]?.ending).toBe(refused);
  });
});

test('every error of a key, a permission or a limit has advice', () => {
  const OTHER_STATUS = 418;
  // The error of cosignatures is for witnesses, which have no key.
  const codes = Object.entries(API_ERRORS).filter(
    ([code, { status }]) => [401, 403, 429].includes(status) && code !== 'cosignature_rejected',
  );
  expect(codes.length).toBeGreaterThan(5);
  expect(codes.filter(([code]) => adviceFor(OTHER_STATUS, code) === null)).toEqual([]);
  expect(adviceFor(OTHER_STATUS, null)).toBeNull();
});
