import type { EventOf } from '#db/events/events.ts';
import { adjustedSubject } from '#db/events/usage-events.ts';
import type { Enforcement, Limit, WindowKind } from '#db/limits/limits.ts';
import {
  amountsOf,
  isByUsage,
  type Meter,
  unitsAbandoned,
  unitsReserved,
  unitsSettled,
} from '#db/limits/meters.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';

/**
 * Quota windows, charged event by event. A request is charged to the windows of its admission minute, by the
 * quotas of the terms that it was admitted under. While it is open its reservation counts as held; when it
 * ends, its usage counts as settled, or its charge if it was abandoned. Pure.
 */

/** One quota of an account or a key in one window. Minutes are UTC, since 1970. */
export type QuotaWindow = {
  /** `account/<id>` or `key/<id>`. */
  subject: string;
  meter: Meter;
  window: WindowKind;
  start: number;
  end: number;
  /** The position of the control event that reset the windows; 0 if none did. */
  reset: number;
  cap: number;
  enforcement: Enforcement;
  settled: number;
  held: number;
  /** Whether requests under a soft limit were charged to it, which can exceed the cap. */
  overdraws: boolean;
};

/** The reservation of an open request in one window, and the terms that it was admitted under. */
export type Charge = { subject: Subject; window: QuotaWindow; limit: Limit; terms: number; held: number };

/** The quotas of a subject from a position of the log on. */
type Version = { position: number; minute: number; quotas: readonly Limit[] };
/** An account or a key: the history of its quotas, and its windows that can still be charged. */
type Subject = { name: string; versions: Version[]; windows: QuotaWindow[] };

type Ending = EventOf<'request.settled' | 'request.abandoned'>;

const QUOTA_WINDOWS: ReadonlySet<WindowKind> = new Set(['hour', 'day', 'week', 'month']);
const isSame = (one: Limit, other: Limit): boolean =>
  one.meter === other.meter &&
  one.window === other.window &&
  one.reset === other.reset &&
  one.cap === other.cap &&
  one.enforcement === other.enforcement;
const matchesLimit = (window: QuotaWindow, { meter, window: kind, reset }: Limit): boolean =>
  window.meter === meter && window.window === kind && window.reset === reset;

/** Memory grows with accounts, keys and changes of their quotas. Windows that are over are discarded. */
export class QuotaWindows {
  readonly #subjects = new Map<string, Subject>();

  /** Sets the limits of a subject from a position on. */
  setLimits(name: string, limits: readonly Limit[], position: number, minute: number): void {
    const subject = this.#subjects.get(name) ?? { name, versions: [], windows: [] };
    const quotas = limits.filter(({ window }) => QUOTA_WINDOWS.has(window));
    const before = subject.versions.at(-1)?.quotas ?? [];
    if (
      quotas.length === before.length &&
      quotas.every((limit) => before.some((other) => isSame(limit, other)))
    )
      return;
    this.#subjects.set(name, subject);
    subject.versions.push({ position, minute, quotas });
    for (const limit of quotas) {
      for (const window of subject.windows) {
        if (matchesLimit(window, limit) && window.end > minute)
          Object.assign(window, { cap: limit.cap, enforcement: limit.enforcement });
      }
    }
  }

  /**
   * Charges an accepted request to its windows.
   * @param minute of the event; windows that ended by then are over.
   * @param onFault called when a hard limit is exceeded.
   * @returns null for a request that was admitted without limits.
   */
  accept(
    event: EventOf<'request.accepted'>,
    minute: number,
    onFault: (problem: string) => void,
  ): Charge[] | null {
    const { account, key, admitted_minute: admitted, terms_position: terms = 0 } = event;
    if (admitted === undefined) return null;
    let charges: Charge[] | null = null;
    for (const subject of [this.#subjects.get(`account/${account}`), this.#subjects.get(`key/${key}`)]) {
      if (subject === undefined) continue;
      for (const limit of versionAt(subject, terms)?.quotas ?? []) {
        const window = windowOf(subject, limit, admitted, minute);
        const charge = { subject, window, limit, terms, held: unitsReserved(limit.meter, amountsOf(event)) };
        window.held += charge.held;
        window.overdraws ||= limit.enforcement === 'soft' && isByUsage(limit.meter);
        checkCap(charge, onFault);
        (charges ??= []).push(charge);
      }
    }
    return charges;
  }

  /** Extends the reservation of a request. A window that is over is not charged any more. */
  extend(
    charges: readonly Charge[] | null,
    event: EventOf<'request.extended'>,
    minute: number,
    onFault: (problem: string) => void,
  ): void {
    for (const charge of charges ?? []) {
      const { window, limit } = charge;
      if (window.end <= minute) continue;
      const held = unitsReserved(limit.meter, amountsOf(event));
      window.held += held - charge.held;
      charge.held = held;
      checkCap(charge, onFault);
    }
  }

  /** Replaces the reservation of a request by its usage. */
  end(charges: readonly Charge[] | null, event: Ending, onFault: (problem: string) => void): void {
    for (const charge of charges ?? []) {
      const { window, limit } = charge;
      const units =
        event.type === 'request.abandoned'
          ? unitsAbandoned(limit.meter, amountsOf(event))
          : unitsSettled(limit.meter, event);
      window.held -= charge.held;
      window.settled += units;
      if (units > charge.held) checkCap(charge, onFault);
    }
  }

  /**
   * Adds an adjustment to the settled units of its window.
   * @param onFault called when the window falls below zero, or rises above a hard limit.
   */
  adjust(event: EventOf<'usage.adjusted'>, minute: number, onFault: (problem: string) => void): void {
    const { amount } = event;
    const name = adjustedSubject(event);
    const subject = this.#subjects.get(name);
    const isAdjusted = ({ meter, window, reset }: Limit): boolean =>
      meter === event.meter && window === event.window && reset === event.reset_position;
    const version = subject?.versions.findLast(({ quotas }) => quotas.some(isAdjusted));
    const limit = version?.quotas.find(isAdjusted);
    if (subject === undefined || version === undefined || limit === undefined)
      return onFault(`the adjusted quota of ${name} doesn't exist`);
    const window = windowOf(subject, limit, event.window_start, minute);
    window.settled += amount;
    if (window.settled < 0)
      onFault(`${limit.meter} of ${name} in its ${limit.window}: adjusted to ${window.settled}, below zero`);
    if (amount > 0) checkCap({ subject, window, limit, terms: version.position, held: 0 }, onFault);
  }

  /**
   * The windows that are current at a minute: those with charges, and those of quotas in force without any.
   */
  running(minute: number): (QuotaWindow & { in_force: boolean })[] {
    const running: (QuotaWindow & { in_force: boolean })[] = [];
    for (const { name, versions, windows } of this.#subjects.values()) {
      const quotas = versions.at(-1)?.quotas ?? [];
      const current = windows.filter(({ start, end }) => start <= minute && end > minute);
      running.push(
        ...current.map((window) => ({
          ...window,
          in_force: quotas.some((limit) => matchesLimit(window, limit)),
        })),
      );
      for (const limit of quotas) {
        if (current.some((window) => matchesLimit(window, limit))) continue;
        const { meter, window, reset, cap, enforcement } = limit;
        const start = windowStart(window, minute);
        running.push({
          subject: name,
          meter,
          window,
          start,
          end: windowEnd(window, start),
          reset,
          cap,
          enforcement,
          settled: 0,
          held: 0,
          overdraws: false,
          in_force: true,
        });
      }
    }
    return running;
  }
}

/** Searches from the newest version, which is nearly always the right one. */
function versionAt({ versions }: Subject, terms: number): Version | undefined {
  return versions.findLast(({ position }) => position <= terms);
}

function windowOf(subject: Subject, limit: Limit, admitted: number, minute: number): QuotaWindow {
  const known = subject.windows.find(
    (window) => matchesLimit(window, limit) && window.start <= admitted && window.end > admitted,
  );
  if (known) return known;
  const start = windowStart(limit.window, admitted);
  const end = windowEnd(limit.window, start);
  // The cap of a window is that of the newest terms set before its end, or else of the oldest terms.
  const same = subject.versions.flatMap((version) => {
    const quota = version.quotas.find(
      ({ meter, window, reset }) => meter === limit.meter && window === limit.window && reset === limit.reset,
    );
    return quota ? [{ minute: version.minute, cap: quota.cap, enforcement: quota.enforcement }] : [];
  });
  const { cap, enforcement } = same.findLast((version) => version.minute < end) ?? same[0] ?? limit;
  const window: QuotaWindow = {
    subject: subject.name,
    meter: limit.meter,
    window: limit.window,
    start,
    end,
    reset: limit.reset,
    cap,
    enforcement,
    settled: 0,
    held: 0,
    overdraws: false,
  };
  subject.windows = subject.windows.filter((each) => each.end > minute || each.held > 0);
  subject.windows.push(window);
  return window;
}

/**
 * Checks invariant P4: a hard limit is never exceeded, nor is any quota on requests. While a raised cap is
 * still propagating, some servers already admit requests under it, so the highest cap since the request's
 * terms applies.
 */
function checkCap({ subject, window, limit, terms }: Charge, onFault: (problem: string) => void): void {
  const { settled, held } = window;
  if (settled + held <= limit.cap || window.overdraws) return;
  const later = subject.versions
    .filter(({ position }) => position > terms)
    .flatMap(({ quotas }) => quotas.filter((each) => matchesLimit(window, each)));
  const cap = Math.max(limit.cap, ...later.map((each) => each.cap));
  if (settled + held > cap)
    onFault(
      `${limit.meter} of ${subject.name} in its ${limit.window}: ${settled} settled and ${held} held ` +
        `exceed ${cap}`,
    );
}
