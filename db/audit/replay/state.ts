import { RecentlyEnded } from '#db/audit/replay/recently-ended.ts';
import { type Ending, Usage } from '#db/audit/replay/totals.ts';
import { type Charge, QuotaWindows } from '#db/audit/replay/quota-windows.ts';
import { Subjects } from '#db/audit/replay/subjects.ts';
import type { ControlEvent, EventOf, Placed } from '#db/events/events.ts';
import { evolveRequest, type Request, type RequestLifeEvent, RequestOrderError } from '#db/fold/request.ts';
import { type Read, UnreadableEventError } from '#db/log/read.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { FAULTS_LISTED_MAX } from '#db/audit/bounds.ts';

/**
 * The state after a range of the log, folded event by event in plain objects. It adds up by
 * itself: it shares no sum and no matching of events with the code of the projections. Pure.
 *
 * Memory grows with accounts, keys and models, with changes of terms, and with open requests; not with
 * requests that have ended.
 */

/** An event that violates invariant P2 or P4, or the order of the log. */
export type Fault = { position: number; problem: string };

/** An open request and its reservations. */
export type OpenCall = { request: Request; position: number; at: Date; charges: Charge[] | null };

export class ReplayState {
  readonly subjects: Subjects;
  readonly usage = new Usage();
  readonly windows = new QuotaWindows();
  readonly open = new Map<string, OpenCall>();
  readonly #ended = new RecentlyEnded();
  readonly #isFullLog: boolean;
  readonly faults: Fault[] = [];
  faultCount = 0;
  /** Requests that ended, and were accepted before the first position that was read. */
  acceptedBefore = 0;
  events = 0;
  position: number;
  /** The time of the newest event; 1970 before the first one. */
  at = new Date(0);
  #minute = 0;
  readonly #onFault = (problem: string): void => this.#fault(problem);

  /** @param after the position before the first event that will be applied: 0 for the full log. */
  constructor(after: number = 0) {
    this.position = after;
    this.#isFullLog = after === 0;
    this.subjects = new Subjects(this.windows, this.#isFullLog);
  }

  /** Applies the next event of any type. */
  apply(read: Read): void {
    this.events++;
    this.position = read.position;
    if (read instanceof UnreadableEventError)
      return this.#fault("the event can't be read: it is damaged, or of a newer version");
    this.#advanceTime(read.at);
    const { event } = read;
    switch (event.type) {
      case 'request.rejected':
        return this.usage.apply(event);
      case 'tokens.counted':
      case 'workload.exchanged':
        return;
      case 'usage.adjusted':
        this.usage.apply(event);
        return this.#correct(event);
      case 'request.accepted':
      case 'request.extended':
        return this.#applyRequestEvent(event);
      case 'request.settled':
      case 'request.abandoned':
        this.usage.apply(event);
        return this.#applyRequestEvent(event);
      default:
        return this.subjects.apply(read as Placed<ControlEvent>, this.#onFault);
    }
  }

  /** All events of a batch carry one time. */
  #advanceTime(at: Date): void {
    if (at === this.at) return;
    if (at < this.at) this.#fault('the event is earlier than the one before it');
    this.at = at;
    this.#minute = minuteOf(at.getTime());
  }

  #applyRequestEvent(event: RequestLifeEvent): void {
    try {
      if (event.type === 'request.accepted') this.#accept(event);
      else this.#continue(event);
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
        `request ${event.request} was admitted under terms of position ${event.terms_position}, which ` +
          'came later',
      );
    const charges = isInOrder ? this.windows.accept(event, this.#minute, this.#onFault) : null;
    this.open.set(event.request, { request, position: this.position, at: this.at, charges });
  }

  #continue(event: Exclude<RequestLifeEvent, EventOf<'request.accepted'>>): void {
    const open = this.open.get(event.request);
    if (open === undefined) return this.#withoutAcceptance(event);
    const { account, key, model } = open.request;
    if (event.account !== account || event.key !== key || event.model !== model)
      this.#fault(
        `request ${event.request} continues with another account, key or model than it was accepted for`,
      );
    open.request = evolveRequest(open.request, event);
    if (event.type === 'request.extended')
      return this.windows.extend(open.charges, event, this.#minute, this.#onFault);
    this.windows.end(open.charges, event, this.#onFault);
    this.open.delete(event.request);
    this.#ended.add(event.request);
  }

  #withoutAcceptance(event: EventOf<'request.extended'> | Ending): void {
    const did = event.type === 'request.extended' ? 'was extended' : 'ended';
    if (this.#ended.has(event.request))
      throw new RequestOrderError(
        `request ${event.request} ${did}${did === 'ended' ? ' twice' : ' after its end'}`,
      );
    if (this.#isFullLog)
      throw new RequestOrderError(
        `request ${event.request} ${did} without being accepted, or long after its end`,
      );
    if (event.type !== 'request.extended') this.acceptedBefore++;
  }

  /** A request has ended before it is corrected. Whether it ever was accepted isn't kept. */
  #correct(event: EventOf<'usage.adjusted'>): void {
    if (this.open.has(event.request)) this.#fault(`request ${event.request} was corrected before its end`);
    this.windows.correct(event, this.position, this.#minute);
  }

  /** Records a fault of the event that is being applied. */
  #fault(problem: string): void {
    this.faultCount++;
    if (this.faults.length < FAULTS_LISTED_MAX) this.faults.push({ position: this.position, problem });
  }
}
