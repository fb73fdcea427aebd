import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Alert, type EndingKey, keyAlert, projectorAlert, upstreamAlert } from '#db/alerts/alerts.ts';
import {
  APART_ALERTS_MAX,
  apartGroup,
  boundApart,
  overdraftAlert,
  QUOTA_PERCENTS,
  quotaAlert,
  type QuotaFigures,
} from '#db/alerts/quota-alerts.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';

const NOW_MS = Date.parse('2026-11-21T12:00:30Z');
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The raised alerts, as readRaised returns them. */
class Raised extends Map<string, number> {
  take(alert: Alert | null): Alert | null {
    if (alert) this.set(alert.topic, alert.ordinal);
    return alert;
  }
}

describe('a quota', () => {
  const quota = (changes: Partial<QuotaFigures>): QuotaFigures => ({
    subject: 'account/Account1',
    per: 0,
    account: 'Account1',
    account_name: 'acme',
    meter: METERS.tokens.code,
    window_kind: WINDOW_KINDS.day,
    window_start: windowStart('day', minuteOf(NOW_MS)),
    reset_position: 0,
    cap: 1_000,
    hard_cap: null,
    used: 0,
    ...changes,
  });
  const percentOf = (alert: Alert | null): unknown => alert?.details['percent'] ?? null;

  test.each([
    [0, null],
    [499, null],
    [500, 50],
    [799, 50],
    [800, 80],
    [999, 80],
    [1_000, 100],
    [5_000, 100],
  ])('of which %i of 1,000 are used gives notice of %s percent', (used, percent) => {
    expect(percentOf(quotaAlert(quota({ used }), new Raised(), NOW_MS))).toBe(percent);
  });

  test('raises each threshold once, in any steps, and no lower one after a higher one', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.array(fc.nat(300_000), { maxLength: 30 }),
        (cap, steps) => {
          const raised = new Raised();
          let used = 0;
          const raisedPercents: number[] = [];
          for (const step of steps) {
            used += step;
            const alert = raised.take(quotaAlert(quota({ cap, used }), raised, NOW_MS));
            if (alert) raisedPercents.push(Number(percentOf(alert)));
            // A threshold is raised as soon as it is reached.
            expect(Math.max(0, ...raisedPercents)).toBe(
              Math.max(0, ...QUOTA_PERCENTS.filter((percent) => used >= cap * (percent / 100))),
            );
          }
          expect(raisedPercents).toEqual([...new Set(raisedPercents)].toSorted((one, other) => one - other));
        },
      ),
    );
  });

  test('raises again in its next window and after a reset', () => {
    const raised = new Raised();
    raised.take(quotaAlert(quota({ used: 1_000 }), raised, NOW_MS));
    expect(quotaAlert(quota({ used: 1_000 }), raised, NOW_MS)).toBeNull();
    expect(percentOf(quotaAlert(quota({ used: 600, reset_position: 9 }), raised, NOW_MS))).toBe(50);
    const tomorrow = quota({ used: 600, window_start: quota({}).window_start + 24 * 60 });
    expect(percentOf(quotaAlert(tomorrow, raised, NOW_MS + DAY_MS))).toBe(50);
  });

  test('raises nothing after its window has ended, or with a limit of 0', () => {
    expect(quotaAlert(quota({ used: 1_000 }), new Raised(), NOW_MS + DAY_MS)).toBeNull();
    expect(quotaAlert(quota({ cap: 0, used: 10 }), new Raised(), NOW_MS)).toBeNull();
  });

  test('raises with its subject, figures and window', () => {
    expect(quotaAlert(quota({ used: 850 }), new Raised(), NOW_MS)).toMatchObject({
      kind: 'quota',
      state: 'raised',
      account: 'Account1',
      details: {
        account_name: 'acme',
        subject: 'account/Account1',
        meter: 'tokens',
        window: 'day',
        percent: 80,
        limit: 1_000,
        used: 850,
        window_starts_at: '2026-11-21T00:00:00.000Z',
        window_ends_at: '2026-11-22T00:00:00.000Z',
      },
    });
  });
});

describe('quotas of end users, sessions and tags', () => {
  const apart = (user: number, changes: Partial<QuotaFigures> = {}): QuotaFigures => ({
    subject: `end_user/Account1/${String(user).padStart(16, 'u')}`,
    per: 1,
    account: 'Account1',
    account_name: 'acme',
    meter: METERS.cost_nanousd.code,
    window_kind: WINDOW_KINDS.lifetime,
    window_start: 0,
    reset_position: 0,
    cap: 1_000,
    hard_cap: 1_000,
    used: 800,
    ...changes,
  });

  test('raise at 80 and 100 %, and where exceeded, with the field that filters go by', () => {
    const percentAt = (used: number): unknown =>
      quotaAlert(apart(1, { used }), new Raised(), NOW_MS)?.details['percent'];
    expect([500, 799, 800, 1_000].map(percentAt)).toEqual([undefined, undefined, 80, 100]);
    const ofKey = apart(1, { subject: 'tag/Account1/Key00001/Tag0000000000001', per: 3, used: 1_200 });
    expect(overdraftAlert(ofKey, new Raised())).toMatchObject({
      kind: 'overdraft',
      account: 'Account1',
      details: { key: 'Key00001', per: 'tag', tag: 'Tag0000000000001', overdraft: 200 },
    });
    expect(quotaAlert(apart(7), new Raised(), NOW_MS)?.details).toMatchObject({
      per: 'end_user',
      end_user: 'uuuuuuuuuuuuuuu7',
      window_ends_at: null,
    });
  });

  test('raise ten alerts and one about the others a day, however many there are and in any runs', () => {
    // A run reads each user once.
    const anyRun = fc.uniqueArray(fc.tuple(fc.nat(200), fc.constantFrom(800, 1_000)), {
      selector: ([user]) => user,
    });
    const anyRuns = fc.array(anyRun, { maxLength: 8 });
    fc.assert(
      fc.property(anyRuns, (runs) => {
        const raised = new Raised();
        const counts = new Map<string, number>();
        const crossed = new Map<string, Set<string>>();
        for (const run of runs) {
          const due = run.flatMap(([user, used]) => {
            const alert = quotaAlert(apart(user, { used }), raised, NOW_MS);
            return alert === null ? [] : [alert];
          });
          for (const alert of due) {
            const group = apartGroup(alert) as string;
            crossed.set(group, (crossed.get(group) ?? new Set()).add(alert.topic));
          }
          for (const alert of boundApart(due, counts, NOW_MS)) {
            if (raised.has(alert.topic)) continue;
            raised.take(alert);
            const group = apartGroup(alert) as string;
            counts.set(group, (counts.get(group) ?? 0) + 1);
          }
        }
        for (const [group, topics] of crossed) {
          const count = counts.get(group) ?? 0;
          if (topics.size <= APART_ALERTS_MAX) expect(count).toBe(topics.size);
          expect(count).toBeLessThanOrEqual(APART_ALERTS_MAX + 1);
        }
      }),
    );
  });
});

describe('a key that expires', () => {
  const key = (changes: Partial<EndingKey> = {}): EndingKey => ({
    id: 'Key00001',
    account: 'Account1',
    account_name: 'acme',
    name: 'laptop',
    created_at: new Date(NOW_MS - 30 * DAY_MS),
    expires_at: new Date(NOW_MS),
    ...changes,
  });
  const daysAt = (beforeMs: number, raised: Raised, changes: Partial<EndingKey> = {}): unknown =>
    raised.take(keyAlert(key(changes), raised, NOW_MS - beforeMs))?.details['days'] ?? null;

  test('raises seven days and one day before its expiry, once each', () => {
    const raised = new Raised();
    expect(daysAt(7 * DAY_MS + 1, raised)).toBeNull();
    expect(daysAt(7 * DAY_MS, raised)).toBe(7);
    expect(daysAt(3 * DAY_MS, raised)).toBeNull();
    expect(daysAt(DAY_MS, raised)).toBe(1);
    expect(daysAt(HOUR_MS, raised)).toBeNull();
    expect(daysAt(0, new Raised())).toBeNull();
  });

  test('raises only the nearest notice if both were missed', () => {
    const raised = new Raised();
    expect(daysAt(HOUR_MS, raised)).toBe(1);
    expect(daysAt(HOUR_MS / 2, raised)).toBeNull();
  });

  test('raises no notice that was due before its creation', () => {
    const short = { created_at: new Date(NOW_MS - 3 * DAY_MS) };
    expect(daysAt(2 * DAY_MS, new Raised(), short)).toBeNull();
    expect(daysAt(DAY_MS, new Raised(), short)).toBe(1);
    expect(daysAt(HOUR_MS, new Raised(), { created_at: new Date(NOW_MS - 2 * HOUR_MS) })).toBeNull();
  });

  test('raises again after its expiry was changed', () => {
    const raised = new Raised();
    expect(daysAt(DAY_MS, raised)).toBe(1);
    expect(daysAt(DAY_MS - 1, raised, { expires_at: new Date(NOW_MS - 1) })).toBe(1);
  });
});

describe('a lasting condition', () => {
  test('an upstream is failing when half of at least twenty requests fail, and recovers at a fifth', () => {
    const of = (failed: number, ended: number, last: number): unknown => {
      const alert = upstreamAlert({ upstream: 'one', ended, failed }, last);
      return alert && [alert.state, alert.ordinal];
    };
    expect(of(19, 19, 0)).toBeNull();
    expect(of(9, 20, 0)).toBeNull();
    expect(of(10, 20, 0)).toEqual(['raised', 1]);
    expect(of(20, 20, 1)).toBeNull();
    expect(of(5, 20, 1)).toBeNull();
    expect(of(4, 20, 1)).toEqual(['recovered', 2]);
    expect(of(0, 20, 2)).toBeNull();
    expect(of(10, 20, 2)).toEqual(['raised', 3]);
  });

  test('projections are behind after a minute, and have caught up at five seconds', () => {
    const of = (ms: number, last: number): unknown => projectorAlert({ events: 7, ms }, last)?.state ?? null;
    expect([of(59_999, 0), of(60_000, 0), of(60_000, 1), of(5_001, 1), of(5_000, 1), of(0, 2)]).toEqual([
      null,
      'raised',
      null,
      null,
      'recovered',
      null,
    ]);
  });
});
