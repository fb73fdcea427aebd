import { EndedLast } from '#db/audit/replay/ended-last.ts';
import { type Ending, Usage } from '#db/audit/replay/figures.ts';
import { type Charge, QuotaWindows } from '#db/audit/replay/quota-windows.ts';
import { Subjects } from '#db/audit/replay/subjects.ts';
import type { ControlEvent, EventOf, Placed } from '#db/events/events.ts';
import { evolveRequest, type Request, type RequestLifeEvent, RequestOrderError } from '#db/fold/request.ts';
import { type Read, UnreadableEventError } from '#db/log/read.ts';
import { minuteOf } from '#db/limits/windows.ts';

/**
 * What an auditor holds to be so after a part of the log: folded event by event in plain objects, so
 * that it owes nothing to the statements that make the projections. Pure.
 *
 * It grows with accounts, keys and models, with the changes of terms, and with the calls that are
 * open; not with the calls that have ended.
 */

/**
 * Something in the log that should not be, at a position: promise P2, P4 or the order of the log is broken.
 */
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
  readonly #ended = new EndedLast();
  readonly #isWhole: boolean;
  readonly faults: Fault[] = [];
  faultCount = 0;
  /** Endings of calls that began before the first position that was read. */
  begunBefore = 0;
  events = 0;
  position: number;
  /** The time of the newest event; 1970 where there is none. */
  at = new Date(0);
  #minute = 0;
  readonly #onFault = (problem: string): void => this.#fault(problem);

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
    if (read instanceof UnreadableEventError)
      return this.#fault("the event can't be read: it is damaged, or of a newer version");
    this.#takeTime(read.at);
    const { event } = read;
    switch (event.type) {
      case 'request.rejected':
        return this.usage.take(event);
      case 'request.accepted':
      case 'request.extended':
        return this.#takeLife(event);
      case 'request.settled':
      case 'request.abandoned':
        this.usage.take(event);
        return this.#takeLife(event);
      default:
        return this.subjects.take(read as Placed<ControlEvent>, this.#onFault);
    }
  }

  /** All events of a batch carry one time. */
  #takeTime(at: Date): void {
    if (at === this.at) return;
    if (at < this.at) this.#fault('the event is earlier than the one before it');
    this.at = at;
    this.#minute = minuteOf(at.getTime());
  }

  #takeLife(event: RequestLifeEvent): void {
    try {
      if (event.type === 'request.accepted') this.#accept(event);
      else this.#goOn(event);
    } catch (error) {
      if (!(error instanceof RequestOrderError)) throw error;
      this.#fault(error.message);
    }
  }

  #accept(event: EventOf<'request.accepted'>): void {
    if (this.#ended.has(event.request))
      throw new RequestOrderError(`request ${event.request} was accepted again after its end`);
    const request = evolveRequest(this.open.get(event.request)?.request, event);
    const isInOrder = event.terms_position === undefined || event.terms_position < this.position;
    if (!isInOrder)
      this.#fault(
        `request ${event.request} was admitted under terms of position ${event.terms_position}, which came later`,
      );
    const charges = isInOrder ? this.windows.accept(event, this.#minute, this.#onFault) : null;
    this.open.set(event.request, { request, position: this.position, at: this.at, charges });
  }

  #goOn(event: Exclude<RequestLifeEvent, EventOf<'request.accepted'>>): void {
    const open = this.open.get(event.request);
    if (open === undefined) return this.#withoutBeginning(event);
    const { account, key, model } = open.request;
    if (event.account !== account || event.key !== key || event.model !== model)
      this.#fault(
        `request ${event.request} goes on for another account, key or model than it was accepted for`,
      );
    open.request = evolveRequest(open.request, event);
    if (event.type === 'request.extended')
      return this.windows.extend(open.charges, event, this.#minute, this.#onFault);
    this.windows.end(open.charges, event, this.#onFault);
    this.open.delete(event.request);
    this.#ended.add(event.request);
  }

  #withoutBeginning(event: EventOf<'request.extended'> | Ending): void {
    const did = event.type === 'request.extended' ? 'was extended' : 'ended';
    if (this.#ended.has(event.request))
      throw new RequestOrderError(
        `request ${event.request} ${did}${did === 'ended' ? ' twice' : ' after its end'}`,
      );
    if (this.#isWhole)
      throw new RequestOrderError(
        `request ${event.request} ${did} without being accepted, or long after its end`,
      );
    if (event.type !== 'request.extended') this.begunBefore++;
  }

  /** Names what is wrong with the event that is being taken in. */
  #fault(problem: string): void {
    this.faultCount++;
    if (this.faults.length < FAULTS_NAMED_MAX) this.faults.push({ position: this.position, problem });
  }
}
