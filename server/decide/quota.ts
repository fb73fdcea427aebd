import type { EventOf } from '#db/events/events.ts';
import { AdjustmentAmount, AdjustmentReason } from '#db/events/quota-events.ts';
import type { AllowanceAdjustment } from '#db/limits/adjustments.ts';
import { isQuotaWindow, type Limit, type QuotaWindowKind, type SubjectLimits } from '#db/limits/limits.ts';
import { METERS, type QuotaMeter } from '#db/limits/meters.ts';
import { type CallAttribution, parseSubject, PER, type Per } from '#db/limits/subjects.ts';
import { windowStart } from '#db/limits/windows.ts';
import { DecisionError } from '#server/decide/decision.ts';

export type QuotaAdjustment = {
  meter: QuotaMeter;
  /** Units to add; below zero they are given back. */
  amount: number;
  /** Only the quotas of this window; null: of all windows. */
  window: QuotaWindowKind | null;
  /** The key that is named; null: none. */
  key: string | null;
  /** The end user, session and tags that are named, by their pseudonyms. */
  attribution?: CallAttribution;
  reason: string;
};

type QuotaLimit = Limit & { meter: QuotaMeter; window: QuotaWindowKind };

/**
 * Adjusts the usage of quotas in their current windows. Whether a window has the units is decided when the
 * events are appended.
 * @param command.subjects the limits to adjust: those that the usage is charged to.
 * @returns one event for each quota that counts the usage, and the change of its allowance.
 * @throws {DecisionError} when no quota counts it in its current window.
 */
export function adjustQuotas(
  command: QuotaAdjustment & {
    account: string;
    subjects: readonly SubjectLimits[];
    minute: number;
    actor: string;
  },
): { events: EventOf<'quota.adjusted'>[]; adjustments: AllowanceAdjustment[] } {
  const { account, subjects, minute, meter, window, actor } = command;
  const amount = AdjustmentAmount.safeParse(command.amount);
  if (!amount.success) throw new DecisionError('invalid', 'The amount must be a whole number other than 0.');
  const reason = AdjustmentReason.safeParse(command.reason);
  if (!reason.success) throw new DecisionError('invalid', 'A reason has 1 to 200 characters.');
  const charged = subjects.flatMap(({ subject, limits, position }) =>
    limits
      .filter((limit): limit is QuotaLimit => isQuota(limit) && limit.meter === meter)
      .filter((limit) => window === null || limit.window === window)
      .map((limit) => ({ subject, limit, position })),
  );
  if (charged.length === 0)
    throw new DecisionError(
      'not_allowed',
      `No quota of ${METERS[meter].name} counts this usage${window === null ? '' : ` by the ${window}`}.`,
    );
  return {
    events: charged.map(({ subject, limit }) => ({
      type: 'quota.adjusted',
      account,
      ...subjectFields(subject, account),
      meter,
      amount: amount.data,
      window: limit.window,
      window_start: windowStart(limit.window, minute),
      reset_position: limit.reset,
      reason: reason.data,
      actor,
    })),
    adjustments: charged.map(({ subject, limit, position }) => ({
      subject,
      meter,
      window: limit.window,
      start: windowStart(limit.window, minute),
      reset: limit.reset,
      cap: limit.cap,
      terms: position,
      amount: amount.data,
    })),
  };
}

/** The fields of an event that name a subject. */
function subjectFields(
  subject: string,
  account: string,
): Pick<EventOf<'quota.adjusted'>, 'key' | 'parent' | Per> {
  const { kind, account: owner, key, pseudonym } = parseSubject(subject);
  return {
    ...(owner === null || owner === account ? {} : { parent: owner }),
    ...(key === null ? {} : { key }),
    ...(pseudonym === null ? {} : { [kind]: pseudonym }),
  };
}

const isQuota = ({ window }: Limit): boolean => isQuotaWindow(window);

/** What to report when a window has too few units; null: it is over since the decision. */
export function refuseAdjustment(adjustment: AllowanceAdjustment | null, units: number): DecisionError {
  if (adjustment === null)
    return new DecisionError(
      'not_allowed',
      'The window has ended meanwhile. Its usage limits nothing any more.',
    );
  const { subject, meter, window, amount } = adjustment;
  const count = `${units} ${METERS[meter].units[units === 1 ? 0 : 1]}`;
  const { kind, account, key } = parseSubject(subject);
  const whose =
    kind === 'account' || kind === 'key' ? `${kind} ${account ?? key}` : `the ${PER[kind].names[0]}`;
  const place = `the ${window} window of ${whose}`;
  return new DecisionError(
    'not_allowed',
    amount < 0
      ? `Only ${count} can be given back in ${place}: no more are reported as used in it. ` +
          'Servers report the usage of their calls within 10 seconds.'
      : `Only ${count} can be added in ${place}: the others are used, reserved or leased to servers.`,
  );
}
