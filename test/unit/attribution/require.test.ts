import { expect, test } from 'vitest';
import { ApiError } from '#server/errors/api-error.ts';
import { applyTerms, requireAttribution } from '#server/attribution/require.ts';

/** The terms of a key on the attribution of its calls. */

const SENT = { endUser: 'ada', session: null, tags: [], unusable: 1 };

test.each([
  [{ session: 'required' }, 'x-daybook-session'],
  [{ tags: 'required' }, 'x-daybook-tags'],
  [{ end_user: 'required', tags: 'required' }, 'x-daybook-tags'],
] as const)('%j rejects a call without, and names the header', (terms, header) => {
  const refusal = applyTerms(SENT, terms);
  expect(refusal).toBeInstanceOf(ApiError);
  expect(refusal).toMatchObject({ code: 'attribution_required', status: 400 });
  expect((refusal as ApiError).message).toContain(`"${header}"`);
});

test('a required value that was sent stays, and a fixed one replaces it', () => {
  expect(applyTerms(SENT, { end_user: 'required' })).toEqual(SENT);
  const fixed = { end_user: { fixed: 'app' }, tags: { fixed: ['a', 'b', 'a'] } };
  expect(applyTerms(SENT, fixed)).toEqual({ endUser: 'app', session: null, tags: ['a', 'b'], unusable: 1 });
});

test('a call that can’t be attributed is rejected only where its key requires or fixes values', () => {
  expect(requireAttribution(null, undefined, false)).toEqual({});
  expect(requireAttribution(null, {}, false)).toEqual({});
  expect(requireAttribution({ session: 's' }, { end_user: 'required' }, true)).toEqual({ session: 's' });
  expect(requireAttribution(null, { end_user: 'required' }, false)).toMatchObject({
    code: 'attribution_unavailable',
  });
  expect(requireAttribution(null, { tags: { fixed: ['a'] } }, false)).toMatchObject({ status: 503 });
  // Without an end user it would get around the limits of each.
  expect(requireAttribution(null, undefined, true)).toMatchObject({ code: 'attribution_unavailable' });
});
