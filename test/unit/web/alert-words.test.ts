import { expect, test } from 'vitest';
import { pseudonymIn, withName } from '#db/alerts/alert-name.ts';
import { alertPath } from '#db/alerts/alert-path.ts';
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

test('an alert has the readable value of its end user in its sentence, and its pseudonym in its link', () => {
  const alert = {
    kind: 'quota' as const,
    state: 'raised' as const,
    account: 'Account1',
    details: { per: 'end_user', end_user: 'Pseudonym0000001', meter: 'tokens', window: 'day', percent: 80 },
  };
  expect(pseudonymIn(alert)).toEqual({ kind: 'end_user', pseudonym: 'Pseudonym0000001' });
  const named = withName(alert, 'ada@example.com');
  expect(alertLine(named, 'utc')).toContain('End user ada@example.com: ');
  expect(alertPath(alert)).toContain('end_user=Pseudonym0000001');
  expect(alertLine(withName(alert, null), 'utc')).toContain('End user Pseudonym0000001: ');
  const other = { ...alert, details: { key: 'Key00001' } };
  expect(pseudonymIn(other)).toBeNull();
  expect(withName(other, 'ada@example.com')).toBe(other);
});
