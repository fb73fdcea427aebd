import { expect, test } from 'vitest';
import { FILTER_FIELDS } from '#db/fold/call-filter.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { readFilterSearch, requestFilterOf, ROUTES } from '../../../web/lib/search/filter.ts';

/** URLs are typed and pasted, so invalid parameters are dropped. */

const [from, to] = ['2026-05-04T10:00:00.000Z', '2026-05-04T11:00:00.000Z'];

test('an end without a start is ignored', () => {
  expect(readFilterSearch({ from, to })).toEqual({ from, to });
  expect(readFilterSearch({ to, range: '1h' })).toEqual({ range: '1h' });
  expect(readFilterSearch({ from: 'yesterday', to })).toEqual({});
});

test('names of Object.prototype are no range and no outcome', () => {
  for (const word of ['constructor', 'toString', '__proto__'])
    expect(readFilterSearch({ range: word, outcome: word })).toEqual({});
});

test('all filters of requests are read, and invalid ones are dropped', () => {
  const valid = {
    account: 'aaaaaaaa',
    key: 'kkkkkkkk',
    model: 'm',
    route: '/v1/messages' as const,
    upstream: 'openai',
    end_user: 'EndUser000000001',
    session: 'Session000000001',
    tag: 'Tag0000000000001',
    outcome: 'refused' as const,
    status: '4xx' as const,
    error_code: 'model_not_permitted',
  };
  expect(readFilterSearch(valid)).toEqual(valid);
  expect(requestFilterOf({ ...valid, range: '1h' })).toEqual(valid);
  expect(Object.keys(valid).toSorted()).toEqual([...FILTER_FIELDS].toSorted());
  const invalid = { route: '/v1/models', upstream: 'Open AI', end_user: 'short', tag: '', status: '6xx' };
  expect(readFilterSearch(invalid)).toEqual({});
});

test('the routes are those of the server', () => expect(ROUTES).toEqual(RELAYED_ROUTES));
