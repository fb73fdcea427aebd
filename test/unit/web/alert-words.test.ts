import { expect, test } from 'vitest';
import { alertLine } from '../../../web/features/alerts/alert-words.ts';
import { readAlertSearch } from '../../../web/lib/search/alerts.ts';

const quota = (details: object) =>
  alertLine(
    {
      kind: 'quota',
      state: 'raised',
      details: { meter: 'tokens', window: 'month', percent: 80, limit: 1_000, used: 850, ...details },
    },
    'utc',
  );

test('alerts of quotas name whose the quota is', () => {
  expect(quota({ subject: 'account/Account1' })).toBe('Monthly tokens: 80% used (850 of 1,000).');
  expect(quota({ subject: 'key/Key00001', key: 'Key00001' })).toMatch(/^Key Key00001: Monthly tokens: 80%/);
  const user = { per: 'end_user', end_user: 'User000000000001' };
  expect(quota(user)).toMatch(/^End user User000000000001: Monthly tokens: 80% used/);
  expect(quota({ ...user, key: 'Key00001' })).toMatch(/^Key Key00001: end user User000000000001: Monthly/);
  expect(quota({ per: 'session', others_than: 10 })).toBe(
    'Sessions: Monthly tokens: 80% used by more than 10 today; no further alerts until tomorrow (UTC).',
  );
  expect(
    alertLine(
      {
        kind: 'overdraft',
        state: 'raised',
        details: { per: 'tag', meter: 'tokens', window: 'day', others_than: 10 },
      },
      'utc',
    ),
  ).toMatch(/^Tags: Daily tokens: hard limit exceeded by more than 10 today/);
});

test('the page of alerts reads the filters that alerts have', () => {
  const search = { account: 'Account1', end_user: 'User000000000001', status: 429, outcome: 'completed' };
  expect(readAlertSearch(search)).toEqual({ account: 'Account1', end_user: 'User000000000001' });
});
