import type { ControlEvent, EventOf, Placed } from '#db/events/events.ts';
import { OUTCOME_OF } from '#db/projections/outcomes.ts';
import { type Audience, type CallFrame, counts, messageBytes, wants } from '#server/feed/audience.ts';
import type { Frame, FrameOf } from '#server/contract/frames.ts';
import { hasUpstreamCost, seesUpstreamCost, withoutUpstreamCost } from '#server/read/operator-fields.ts';
import type { Scope } from '#server/read/scope.ts';
import { usageDeltaOf } from '#server/feed/usage-delta.ts';

/**
 * Frames per message: a page of a backlog is split, so that each message is a fraction of a viewer's buffer.
 */
export const MESSAGE_FRAMES_MAX = 250;

/** The plan of an account; null: none. */
export type PlanOf = (account: string) => string | null;

/** Notices about members, sessions and management keys are hidden from API keys. */
const OF_PEOPLE =
  /^(member|session|invitation|registration|management_key|identity_provider|sign_in|workload)\./;
/** Of these, notices without an account are for readers of all accounts. */
const OF_THE_SERVICE = /^(invitation|registration|identity_provider|sign_in)\./;

type Item = {
  position: number;
  frame: CallFrame | FrameOf<'notice'>;
  json: string | null;
  /** With the costs of the operator; null where it is the same, or not serialized yet. */
  operatorJson: string | null;
};

/**
 * A page of the log as frames. Each event becomes a frame once and is serialized at most once, for all
 * audiences; each audience scans only the events of its own account.
 */
export class LivePage {
  /** The position of the page's last event. */
  readonly position: number;
  readonly #at: string;
  readonly #items: Item[] = [];
  readonly #ofAccount = new Map<string | null, Item[]>();
  readonly #planOf: PlanOf;

  /** @param events in order, at least one. */
  constructor(events: readonly Placed[], planOf: PlanOf) {
    const last = events.at(-1) as Placed;
    this.position = last.position;
    this.#at = last.at.toISOString();
    this.#planOf = planOf;
    for (const placed of events) {
      const frame = frameOf(placed);
      if (frame === null) continue;
      const item: Item = { position: placed.position, frame, json: null, operatorJson: null };
      this.#items.push(item);
      const account = frame.account ?? null;
      const ofAccount = this.#ofAccount.get(account);
      if (ofAccount) ofAccount.push(item);
      else this.#ofAccount.set(account, [item]);
    }
  }

  /** The messages for an audience of this page's events above `after`; empty if none match. */
  messagesFor(audience: Audience, after: number): Buffer[] {
    const items = this.#candidates(audience.scope).filter(
      ({ position, frame }) => position > after && this.#isFor(audience, frame),
    );
    const isOperator = seesUpstreamCost(audience.scope);
    const messages: Buffer[] = [];
    for (let from = 0; from < items.length; from += MESSAGE_FRAMES_MAX) {
      const part = items.slice(from, from + MESSAGE_FRAMES_MAX);
      const isLast = from + MESSAGE_FRAMES_MAX >= items.length;
      const frames = part.map(isOperator ? operatorJsonOf : jsonOf);
      const rows = usageDeltaOf(endings(part, audience), isOperator);
      if (rows.length > 0) frames.push(JSON.stringify({ type: 'usage', rows } satisfies Frame));
      messages.push(messageBytes(isLast ? this.position : (part.at(-1) as Item).position, this.#at, frames));
    }
    return messages;
  }

  /** Events of the account and of no account, in log order. */
  #candidates({ account }: Scope): readonly Item[] {
    if (account === null) return this.#items;
    const own = this.#ofAccount.get(account) ?? [];
    const shared = this.#ofAccount.get(null);
    return shared ? [...own, ...shared].toSorted((left, right) => left.position - right.position) : own;
  }

  #isFor(audience: Audience, frame: Item['frame']): boolean {
    return frame.type === 'notice' ? this.#concerns(audience, frame) : wants(audience, frame);
  }

  #concerns({ scope: { account, key }, isSignedIn }: Audience, notice: FrameOf<'notice'>): boolean {
    if (!isSignedIn && OF_PEOPLE.test(notice.kind)) return false;
    if (account === null) return true;
    if (OF_THE_SERVICE.test(notice.kind)) return false;
    if (notice.account !== undefined)
      return notice.account === account && (key === null || (notice.key ?? key) === key);
    return notice.plan !== undefined && notice.plan === this.#planOf(account);
  }
}

function jsonOf(item: Item): string {
  item.json ??= JSON.stringify(withoutUpstreamCost(item.frame));
  return item.json;
}

function operatorJsonOf(item: Item): string {
  if (!hasUpstreamCost(item.frame)) return jsonOf(item);
  item.operatorJson ??= JSON.stringify(item.frame);
  return item.operatorJson;
}

function* endings(
  items: readonly Item[],
  audience: Audience,
): Generator<FrameOf<'settled' | 'refused' | 'corrected'>> {
  for (const { frame } of items) {
    if (frame.type === 'settled' || frame.type === 'refused' || frame.type === 'corrected')
      if (counts(audience, frame)) yield frame;
  }
}

/** The frame of an event; null if it isn't shown. An extended hold is visible in its quota. */
export function frameOf({ event, position, at }: Placed): Item['frame'] | null {
  const placed = { position, at: at.toISOString() };
  switch (event.type) {
    case 'request.accepted':
      return { ...event, type: 'started', ...placed };
    case 'request.settled':
    case 'request.abandoned':
      return { ...event, type: 'settled', ...placed, outcome: OUTCOME_OF[event.end_reason] };
    case 'request.rejected':
      return { ...event, type: 'refused', ...placed };
    case 'request.extended':
    case 'tokens.counted':
    case 'workload.exchanged':
      return null;
    case 'usage.adjusted':
      return {
        ...shownCorrection(event),
        type: 'corrected',
        ...placed,
        outcome: OUTCOME_OF[event.end_reason],
      };
    default:
      return noticeOf(event, placed);
  }
}

/** Where a correction comes from is in the request's details. */
function shownCorrection({
  reference: _reference,
  reason: _reason,
  adjusted_by: _by,
  ...event
}: EventOf<'usage.adjusted'>) {
  return event;
}

/** The public fields of a control event; the others aren't sent. */
function noticeOf(event: ControlEvent, placed: { position: number; at: string }): FrameOf<'notice'> {
  const notice: FrameOf<'notice'> = { type: 'notice', kind: event.type, ...placed };
  if ('account' in event) notice.account = event.account;
  if ('key' in event) notice.key = event.key;
  if ('plan' in event && event.plan !== null) notice.plan = event.plan;
  if ('model' in event) notice.model = event.model;
  return notice;
}
