import type { EventOf } from '#db/events/events.ts';
import { isUncharged } from '#db/events/admission.ts';
import { adjustedSubject } from '#db/events/quota-events.ts';
import {
  type Enforcement,
  isQuotaWindow,
  type Limit,
  type TermsLimit,
  type WindowKind,
} from '#db/limits/limits.ts';
import {
  amountsOf,
  isByUsage,
  type Meter,
  unitsAbandoned,
  unitsCorrected,
  unitsReserved,
  unitsSettled,
} from '#db/limits/meters.ts';
import {
  type ChargedCall,
  type ChargedSubject,
  holderOf,
  type Per,
  subjectsOf,
} from '#db/limits/subjects.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';

/**
 * Quota windows, charged event by event. A request is charged to the windows of its admission minute, by the
 * quotas of the terms that it was admitted under. While it is open its reservation counts as held; when it
 * ends, its usage counts as settled, or its charge if it was abandoned. Pure.
 */

/** One quota of one subject in one window. Minutes are UTC, since 1970. */
export type QuotaWindow = {
  /** Its name; see db/limits/subjects.ts. */
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
  /** What corrections have added to the settled units, which may exceed the cap. */
  corrected: number;
  /** Whether requests were charged to it that can exceed the cap; see {@link canOverdraw}. */
  overdraws: boolean;
};

/** The reservation of an open request in one window, and the terms that it was admitted under. */
export type Charge = { holder: Holder; window: QuotaWindow; limit: TermsLimit; terms: number; held: number };

/** The quotas of an account or key from a position of the log on. */
type Version = {
  position: number;
  minute: number;
  quotas: readonly TermsLimit[];
  /** The kinds of subjects that they limit; null: the holder. */
  kinds: readonly (Per | null)[];
};
/** An account or a key: the history of its quotas, and by subject the windows that can still be charged. */
type Holder = { name: string; versions: Version[]; windows: Map<string, Subject> };
type Subject = { per: Per | null; windows: QuotaWindow[] };

type Ending = EventOf<'request.settled' | 'request.abandoned'>;

const isSame = (one: TermsLimit, other: TermsLimit): boolean =>
  one.per === other.per &&
  one.meter === other.meter &&
  one.window === other.window &&
  one.reset === other.reset &&
  one.cap === other.cap &&
  one.enforcement === other.enforcement;
/** A limit that is soft or observed can be exceeded by usage. */
const canOverdraw = ({ enforcement, meter }: TermsLimit): boolean =>
  enforcement !== 'hard' && isByUsage(meter);
const matchesLimit = (window: QuotaWindow, { meter, window: kind, reset }: Limit): boolean =>
  window.meter === meter && window.window === kind && window.reset === reset;

/**
 * Memory grows with accounts, keys and changes of their quotas, with the end users, sessions and tags of
 * current windows, and with those that ever had a lifetime quota. Windows that are over are discarded.
 */
export class QuotaWindows {
  readonly #holders = new Map<string, Holder>();
  /** The subjects with windows, and how many there were when those whose windows are over were discarded. */
  #count = 0;
  #kept = SUBJECTS_FIRST;

  /** Sets the limits of an account or key from a position on. */
  setLimits(name: string, limits: readonly TermsLimit[], position: number, minute: number): void {
    const holder: Holder = this.#holders.get(name) ?? { name, versions: [], windows: new Map() };
    const quotas = limits.filter(({ window }) => isQuotaWindow(window));
    const before = holder.versions.at(-1)?.quotas ?? [];
    if (
      quotas.length === before.length &&
      quotas.every((limit) => before.some((other) => isSame(limit, other)))
    )
      return;
    this.#holders.set(name, holder);
    const kinds = [...new Set(quotas.map(({ per }) => per))];
    holder.versions.push({ position, minute, quotas, kinds });
    for (const { per, windows } of holder.windows.values()) {
      for (const limit of quotas) {
        if (limit.per !== per) continue;
        for (const window of windows)
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
    const { admitted_minute: admitted, terms_position: terms = 0 } = event;
    if (admitted === undefined) return null;
    let charges: Charge[] | null = null;
    for (const { name, holder: holderName, per } of this.#subjectsOf(event, terms)) {
      const holder = this.#holders.get(holderName);
      if (holder === undefined) continue;
      for (const limit of versionAt(holder, terms)?.quotas ?? []) {
        if (limit.per !== per || isUncharged(event, name, limit)) continue;
        const window = this.#windowOf(holder, name, limit, admitted, minute);
        const charge = { holder, window, limit, terms, held: unitsReserved(limit.meter, amountsOf(event)) };
        window.held += charge.held;
        window.overdraws ||= canOverdraw(limit);
        checkCap(charge, onFault);
        (charges ??= []).push(charge);
      }
    }
    return charges;
  }

  /** The subjects that terms at a position limit. */
  #subjectsOf(call: ChargedCall, terms: number): ChargedSubject[] {
    return subjectsOf(call, (name) => {
      const holder = this.#holders.get(name);
      return (holder && versionAt(holder, terms)?.kinds) ?? [];
    });
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
   * Adds a correction to the windows that its request was charged to, as far as they are not over.
   * @param position of the event.
   */
  correct(event: EventOf<'usage.adjusted'>, position: number, minute: number): void {
    const { admitted_minute: admitted, terms_position: terms = 0 } = event;
    if (admitted === undefined || terms >= position) return;
    for (const { name, holder: holderName, per } of this.#subjectsOf(event, terms)) {
      const holder = this.#holders.get(holderName);
      if (holder === undefined) continue;
      for (const limit of versionAt(holder, terms)?.quotas ?? []) {
        if (limit.per !== per || isUncharged(event, name, limit)) continue;
        if (windowEnd(limit.window, windowStart(limit.window, admitted)) <= minute) continue;
        const window = this.#windowOf(holder, name, limit, admitted, minute);
        const units = unitsCorrected(limit.meter, event);
        window.settled += units;
        window.corrected += Math.max(0, units);
      }
    }
  }

  /**
   * Adds an adjustment to the settled units of its window.
   * @param onFault called when the window falls below zero, or rises above a hard limit.
   */
  adjust(event: EventOf<'quota.adjusted'>, minute: number, onFault: (problem: string) => void): void {
    const { amount } = event;
    const name = adjustedSubject(event);
    const { holder: holderName, per: kind } = holderOf(name);
    const holder = this.#holders.get(holderName);
    const isAdjusted = ({ per, meter, window, reset }: TermsLimit): boolean =>
      per === kind && meter === event.meter && window === event.window && reset === event.reset_position;
    const version = holder?.versions.findLast(({ quotas }) => quotas.some(isAdjusted));
    const limit = version?.quotas.find(isAdjusted);
    if (holder === undefined || version === undefined || limit === undefined)
      return onFault(`the adjusted quota of ${name} doesn't exist`);
    const window = this.#windowOf(holder, name, limit, event.window_start, minute);
    window.settled += amount;
    if (window.settled < 0)
      onFault(`${limit.meter} of ${name} in its ${limit.window}: adjusted to ${window.settled}, below zero`);
    if (amount > 0) checkCap({ holder, window, limit, terms: version.position, held: 0 }, onFault);
  }

  /**
   * The windows that are current at a minute: those with charges, and those of quotas in force without any of
   * accounts and keys.
   */
  running(minute: number): (QuotaWindow & { in_force: boolean })[] {
    const running: (QuotaWindow & { in_force: boolean })[] = [];
    for (const { name, versions, windows } of this.#holders.values()) {
      const quotas = versions.at(-1)?.quotas ?? [];
      for (const { per, windows: own } of windows.values()) {
        for (const window of own)
          if (window.start <= minute && window.end > minute)
            running.push({
              ...window,
              in_force: quotas.some((limit) => limit.per === per && matchesLimit(window, limit)),
            });
      }
      const current = (windows.get(name)?.windows ?? []).filter(
        ({ start, end }) => start <= minute && end > minute,
      );
      for (const limit of quotas) {
        if (limit.per !== null || current.some((window) => matchesLimit(window, limit))) continue;
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
          corrected: 0,
          overdraws: false,
          in_force: true,
        });
      }
    }
    return running;
  }

  /** The window of a subject that a limit has at the minute of an admission. */
  #windowOf(holder: Holder, name: string, limit: TermsLimit, admitted: number, minute: number): QuotaWindow {
    let subject = holder.windows.get(name);
    if (subject === undefined) {
      if (this.#count >= 2 * this.#kept) this.#discard(minute);
      this.#count++;
      holder.windows.set(name, (subject = { per: limit.per, windows: [] }));
    }
    return windowOf(holder, name, subject, limit, admitted, minute);
  }

  /** Discards the subjects whose windows are all over. */
  #discard(minute: number): void {
    this.#count = 0;
    for (const { windows } of this.#holders.values()) {
      for (const [name, subject] of windows)
        if (subject.windows.every((window) => isOver(window, minute))) windows.delete(name);
      this.#count += windows.size;
    }
    this.#kept = Math.max(SUBJECTS_FIRST, this.#count);
  }
}

/** Subjects with windows are discarded from twice so many on. */
const SUBJECTS_FIRST = 1_000;

const isOver = ({ end, held }: QuotaWindow, minute: number): boolean => end <= minute && held === 0;

/** Searches from the newest version, which is nearly always the right one. */
function versionAt({ versions }: Holder, terms: number): Version | undefined {
  return versions.findLast(({ position }) => position <= terms);
}

function windowOf(
  holder: Holder,
  name: string,
  subject: Subject,
  limit: TermsLimit,
  admitted: number,
  minute: number,
): QuotaWindow {
  const known = subject.windows.find(
    (window) => matchesLimit(window, limit) && window.start <= admitted && window.end > admitted,
  );
  if (known) return known;
  const start = windowStart(limit.window, admitted);
  const end = windowEnd(limit.window, start);
  // The cap of a window is that of the newest terms set before its end, or else of the oldest terms.
  const same = holder.versions.flatMap((version) => {
    const quota = version.quotas.find(
      ({ per, meter, window, reset }) =>
        per === limit.per && meter === limit.meter && window === limit.window && reset === limit.reset,
    );
    return quota ? [{ minute: version.minute, cap: quota.cap, enforcement: quota.enforcement }] : [];
  });
  const { cap, enforcement } = same.findLast((version) => version.minute < end) ?? same[0] ?? limit;
  const window: QuotaWindow = {
    subject: name,
    meter: limit.meter,
    window: limit.window,
    start,
    end,
    reset: limit.reset,
    cap,
    enforcement,
    settled: 0,
    held: 0,
    corrected: 0,
    overdraws: false,
  };
  subject.windows = subject.windows.filter((each) => !isOver(each, minute));
  subject.windows.push(window);
  return window;
}

/**
 * Checks invariant P4: a hard limit is never exceeded but by corrections, nor is any quota on requests. While
 * a raised cap is still propagating, some servers already admit requests under it, so the highest cap since
 * the request's terms applies.
 */
function checkCap({ holder, window, limit, terms }: Charge, onFault: (problem: string) => void): void {
  const { settled, held, corrected } = window;
  if (settled + held <= limit.cap + corrected || window.overdraws) return;
  const later = holder.versions
    .filter(({ position }) => position > terms)
    .flatMap(({ quotas }) => quotas.filter((each) => each.per === limit.per && matchesLimit(window, each)));
  const cap = Math.max(limit.cap, ...later.map((each) => each.cap));
  if (settled + held > cap + corrected)
    onFault(
      `${limit.meter} of ${window.subject} in its ${limit.window}: ${settled} settled and ${held} held ` +
        `exceed ${cap}`,
    );
}
