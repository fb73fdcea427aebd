import type { EventOf } from '#db/events/events.ts';
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
 * The windows of quotas, charged event by event: each call to the windows of its admission, by the
 * quotas of the terms that it was admitted under. It holds until it ends, and then has used what it
 * settled at, or all of its hold where it was abandoned. Pure.
 */

/** One quota of an account or a key in one window. Minutes are UTC, since 1970. */
export type QuotaWindow = {
  /** `account/<id>` or `key/<id>`. */
  subject: string;
  meter: Meter;
  window: WindowKind;
  start: number;
  end: number;
  /** The position of the control event that began the windows anew; 0 when none ever did. */
  reset: number;
  cap: number;
  enforcement: Enforcement;
  settled: number;
  held: number;
  /** Whether replies that are not cut were charged to it, which may overdraw. */
  overdraws: boolean;
};

/** What one open call holds of a window, and the terms that it was admitted under. */
export type Charge = { subject: Subject; window: QuotaWindow; limit: Limit; terms: number; held: number };

/** Quotas from a position of the log on. */
type Version = { position: number; minute: number; quotas: readonly Limit[] };
/**
 * An account or a key: its quotas since the beginning, and those of its windows that may still be charged.
 */
type Subject = { name: string; versions: Version[]; windows: QuotaWindow[] };

type Spent = EventOf<'request.settled' | 'request.abandoned'>;

const QUOTA_WINDOWS: ReadonlySet<WindowKind> = new Set(['hour', 'day', 'week', 'month']);
const isSame = (one: Limit, other: Limit): boolean =>
  one.meter === other.meter &&
  one.window === other.window &&
  one.reset === other.reset &&
  one.cap === other.cap &&
  one.enforcement === other.enforcement;
const isOf = (window: QuotaWindow, { meter, window: kind, reset }: Limit): boolean =>
  window.meter === meter && window.window === kind && window.reset === reset;

/**
 * It grows with accounts and keys, and with the changes of their quotas; windows that are over are let go.
 */
export class QuotaWindows {
  readonly #subjects = new Map<string, Subject>();

  /** From here on a subject has these limits. */
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
        if (isOf(window, limit) && window.end > minute)
          Object.assign(window, { cap: limit.cap, enforcement: limit.enforcement });
      }
    }
  }

  /**
   * Charges an accepted call to its windows. Calls from before there were limits are charged nowhere.
   * @param minute that of the event, which tells the windows that are over.
   * @param onFault told of a limit that was exceeded.
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
        judge(charge, onFault);
        (charges ??= []).push(charge);
      }
    }
    return charges;
  }

  /** A call was given more to spend. A window that is over is not charged for it any more. */
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
      judge(charge, onFault);
    }
  }

  /** A call has ended. */
  end(charges: readonly Charge[] | null, event: Spent, onFault: (problem: string) => void): void {
    for (const charge of charges ?? []) {
      const { window, limit } = charge;
      const units =
        event.type === 'request.abandoned'
          ? unitsAbandoned(limit.meter, amountsOf(event))
          : unitsSettled(limit.meter, event);
      window.held -= charge.held;
      window.settled += units;
      if (units > charge.held) judge(charge, onFault);
    }
  }

  /**
   * The windows that run at a minute: those that were charged, and those of quotas in force that
   * nobody has touched.
   */
  running(minute: number): (QuotaWindow & { in_force: boolean })[] {
    const running: (QuotaWindow & { in_force: boolean })[] = [];
    for (const { name, versions, windows } of this.#subjects.values()) {
      const quotas = versions.at(-1)?.quotas ?? [];
      const current = windows.filter(({ start, end }) => start <= minute && end > minute);
      running.push(
        ...current.map((window) => ({ ...window, in_force: quotas.some((limit) => isOf(window, limit)) })),
      );
      for (const limit of quotas) {
        if (current.some((window) => isOf(window, limit))) continue;
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

/** The newest terms are nearly always the ones that are meant. */
function versionAt({ versions }: Subject, terms: number): Version | undefined {
  return versions.findLast(({ position }) => position <= terms);
}

function windowOf(subject: Subject, limit: Limit, admitted: number, minute: number): QuotaWindow {
  const known = subject.windows.find(
    (window) => isOf(window, limit) && window.start <= admitted && window.end > admitted,
  );
  if (known) return known;
  const start = windowStart(limit.window, admitted);
  const end = windowEnd(limit.window, start);
  // Its cap is what the newest terms said that came while it lasted; of terms that all came later, the
  // oldest.
  const same = subject.versions.flatMap((version) => {
    const said = version.quotas.find(
      ({ meter, window, reset }) => meter === limit.meter && window === limit.window && reset === limit.reset,
    );
    return said ? [{ minute: version.minute, cap: said.cap, enforcement: said.enforcement }] : [];
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
 * Promise P4, where no reply may overdraw: of hard quotas, and of all that count requests. While
 * servers are still to hear of a higher cap some of them rightly admit beyond the lower one, so the
 * highest since the call's terms counts.
 */
function judge({ subject, window, limit, terms }: Charge, onFault: (problem: string) => void): void {
  const { settled, held } = window;
  if (settled + held <= limit.cap || window.overdraws) return;
  const later = subject.versions
    .filter(({ position }) => position > terms)
    .flatMap(({ quotas }) => quotas.filter((each) => isOf(window, each)));
  const cap = Math.max(limit.cap, ...later.map((each) => each.cap));
  if (settled + held > cap)
    onFault(
      `${limit.meter} of ${subject.name} in its ${limit.window}: ${settled} settled and ${held} held exceed ${cap}`,
    );
}
