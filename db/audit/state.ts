import { QuotaWindows, type Charge } from '#db/audit/quota-windows.ts';
import { Subjects } from '#db/audit/subjects.ts';
import { type Ending, Usage } from '#db/audit/figures.ts';
import type { ControlEvent, EventOf, Placed } from '#db/events.ts';
import { evolveRequest, type Request, RequestOrderError, type RequestLifeEvent } from '#db/fold/request.ts';
import { type Read, UnreadableEventError } from '#db/log/read.ts';
import { minuteOf } from '#db/windows.ts';

/**
 * What an auditor holds to be so after a part of the log: folded event by event in plain objects, so
 * that it owes nothing to the statements that make the projections. Pure.
 *
 * It grows with accounts, keys and models, with the changes of terms, and with the calls that are
 * open; not with the calls that have ended.
 */

/** Something in the log that should not be, at a position: promise P2, P4 or the order of the log is broken. */
export type Fault = { position: number; problem: string };

/** So many faults are named, and all of them counted. One tells that something is wrong. */
const FAULTS_NAMED_MAX = 100;

/** An open call, and what it holds of which quotas. */
export type OpenCall = { request: Request; position: number; at: Date; charges: Charge[] | null };

export class AuditState {
  readonly subjects: Subjects;
  readonly usage = new Usage();
  readonly windows = new QuotaWindows();
  readonly open = new Map<string, OpenCall>();
  readonly #ended = new RecentIds();
  readonly #isWhole: boolean;
  readonly faults: Fault[] = [];
  faultCount = 0;
  /** Endings of calls that began before the first position that was read. */
  begunBefore = 0;
  events = 0;
  position: number;
  /** The time of the newest event; 1970 where there is none. */
  at = new Date(0);

  /** @param after the position before the first event that will be taken in: 0 for the whole log. */
  constructor(after: number = 0) {
    this.position = after;
    this.#isWhole = after === 0;
    this.subjects = new Subjects(this.windows, this.#isWhole);
  }

  /** Takes in the next event, whatever it is. */
  take(read: Read): void {
    this.events++;
    this.position = read.position;
    if (read instanceof UnreadableEventError) return this.#fault(read.position, 'the event can\'t be read: it is damaged, or of a newer version');
    const { event, at, position } = read;
    if (at < this.at) this.#fault(position, 'the event is earlier than the one before it');
    this.at = at;
    if ('actor' in event) return this.subjects.take(read as Placed<ControlEvent>, (problem) => this.#fault(position, problem));
    if (event.type === 'request.refused') return this.usage.take(event);
    if (event.type === 'request.settled' || event.type === 'request.abandoned') this.usage.take(event);
    try {
      this.#takeLife(event, read);
    } catch (error) {
      if (!(error instanceof RequestOrderError)) throw error;
      this.#fault(position, error.message);
    }
  }

  #takeLife(event: RequestLifeEvent, { position, at }: Placed): void {
    const minute = minuteOf(at.getTime());
    const onFault = (problem: string): void => this.#fault(position, `request ${event.request}: ${problem}`);
    if (event.type === 'request.accepted') return this.#accept(event, position, at, minute, onFault);
    const open = this.open.get(event.request);
    if (open === undefined) return this.#withoutBeginning(event);
    const { account, key, model } = open.request;
    if (event.account !== account || event.key !== key || event.model !== model) onFault('it goes on for another account, key or model than it was accepted for');
    open.request = evolveRequest(open.request, event);
    if (event.type === 'request.extended') return this.windows.extend(open.charges, event, minute, onFault);
    this.windows.end(open.charges, event, onFault);
    this.open.delete(event.request);
    this.#ended.add(event.request);
  }

  #accept(event: EventOf<'request.accepted'>, position: number, at: Date, minute: number, onFault: (problem: string) => void): void {
    if (this.#ended.has(event.request)) throw new RequestOrderError(`request ${event.request} was accepted again after its end`);
    const request = evolveRequest(this.open.get(event.request)?.request, event);
    const isInOrder = event.terms_position === undefined || event.terms_position < position;
    if (!isInOrder) onFault(`it was admitted under terms of position ${event.terms_position}, which came later`);
    const charges = isInOrder ? this.windows.accept(event, minute, onFault) : null;
    this.open.set(event.request, { request, position, at, charges });
  }

  #withoutBeginning(event: EventOf<'request.extended'> | Ending): void {
    const did = event.type === 'request.extended' ? 'was extended' : 'ended';
    if (this.#ended.has(event.request)) throw new RequestOrderError(`request ${event.request} ${did}${did === 'ended' ? ' twice' : ' after its end'}`);
    if (this.#isWhole) throw new RequestOrderError(`request ${event.request} ${did} without being accepted, or long after its end`);
    if (event.type !== 'request.extended') this.begunBefore++;
  }

  #fault(position: number, problem: string): void {
    this.faultCount++;
    if (this.faults.length < FAULTS_NAMED_MAX) this.faults.push({ position, problem });
  }
}

/**
 * The ids of calls that ended last: what comes for them again is told to be a second time. A second
 * ending is found however late it comes, since it has no beginning. Of a second acceptance that
 * comes later than this reaches back nothing is known here; in the projection it breaks the key.
 */
class RecentIds {
  #newer = new Set<string>();
  #older = new Set<string>();

  add(id: string): void {
    if (this.#newer.size === RECENT_IDS_MAX) {
      this.#older = this.#newer;
      this.#newer = new Set();
    }
    this.#newer.add(id);
  }

  has(id: string): boolean {
    return this.#newer.has(id) || this.#older.has(id);
  }
}

/** A few megabytes, and minutes of a very busy log. */
const RECENT_IDS_MAX = 50_000;
