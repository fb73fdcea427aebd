import type { EndReason, UsageSource } from '#db/events/endings.ts';
import { EVENT_CODES, type Event, type EventOf, type Placed } from '#db/events/events.ts';
import type { UsageDetails } from '#db/events/usage-details.ts';
import type { FilteredCall } from '#db/fold/call-filter.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { OUTCOME_OF } from '#db/projections/outcomes.ts';

/**
 * Spend events: the money in the log, one for each ended request, correction, top-up and adjustment of a
 * money quota. Each is derived from a single event of the log, so that a position always gives the same spend
 * event. Field names are those of the log. Pure.
 *
 * The charges of an account are the sum of `cost_nanousd` over its spend events; payments are
 * `amount_nanousd` of `account.topped_up`. `quota.adjusted` changes what a quota has left, and no charge.
 */

/** The events of the log that become spend events. */
const SPEND_TYPES = [
  'request.settled',
  'request.abandoned',
  'usage.adjusted',
  'account.topped_up',
  'quota.adjusted',
] as const satisfies readonly Event['type'][];
export type SpendType = (typeof SPEND_TYPES)[number];

/** The beginning of the lines of these types. Most lines of a log are others, which need no parsing. */
const LINE_STARTS: ReadonlySet<string> = new Set(SPEND_TYPES.map((type) => `(${EVENT_CODES[type]},`));

/** Whether the line of an event may become a spend event. */
export const isSpendLine = (line: string): boolean => LINE_STARTS.has(line.slice(0, line.indexOf(',') + 1));

/** An absent field has no value for this event. Amounts of `usage.adjusted` are differences. */
export type SpendEvent = {
  object: 'spend_event';
  /**
   * The same for each delivery, and unique in this log: receivers deduplicate by it. Shard and position and,
   * where the log was continued from an older backup, the epoch.
   */
  id: string;
  /** In the log; also the cursor behind this event. */
  position: number;
  type: SpendType;
  /** When it was recorded, in ISO 8601. */
  at: string;
  account: string;
  key?: string;
  request?: string;
  /** The requested model, and the one that the reply names. */
  model?: string;
  answered_model?: string;
  route?: RelayedRoute;
  upstream?: string;
  /** Pseudonyms, as in the log. */
  end_user?: string;
  session?: string;
  tags?: readonly string[];
  status?: number;
  end_reason?: EndReason;
  /** The whole prompt, with cached parts. */
  input_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  /** The whole reply, with the reasoning. */
  output_tokens?: number;
  reasoning_tokens?: number;
  /** Of an abandoned request: the tokens that it is charged for, prompt and reply together. */
  hold_tokens?: number;
  /** Rare token classes, and units such as images and web searches. */
  usage_details?: UsageDetails;
  usage_source?: UsageSource;
  /** Whether the provider did not report the usage, so that it was counted or estimated. */
  estimated?: boolean;
  /** The charge in nano-dollars. Absent where the model has no price. */
  cost_nanousd?: number;
  /** What all attempts cost the operator. Only for operators. */
  upstream_cost_nanousd?: number;
  price_version?: number;
  price_plan?: string;
  /** Of a top-up: the payment; of an adjustment: the change of a money quota's usage. */
  amount_nanousd?: number;
  /** Where a correction or a payment comes from, and why. */
  reference?: string;
  reason?: string;
  /** Who made it, as the `actor` of control events. */
  actor?: string;
};

/**
 * The spend event of an event of the log.
 * @param epoch of the log at its position, from 1.
 * @returns null for an event that is not about money.
 */
export function spendEventOf({ shard, position, at, event }: Placed, epoch: number): SpendEvent | null {
  const spend = spendOf(event);
  if (spend === null) return null;
  const id = epoch === 1 ? `${shard}-${position}` : `${shard}-${position}-${epoch}`;
  return withoutUndefined({ object: 'spend_event', id, position, at: at.toISOString(), ...spend });
}

type Spend = Omit<Loose<SpendEvent>, 'object' | 'id' | 'position' | 'at'> &
  Pick<SpendEvent, 'type' | 'account'>;
type Loose<T> = { [Name in keyof T]?: T[Name] | undefined };

function spendOf(event: Event): Spend | null {
  switch (event.type) {
    case 'request.settled':
      return settled(event);
    case 'request.abandoned':
      return abandoned(event);
    case 'usage.adjusted':
      return adjusted(event);
    case 'account.topped_up': {
      const { type, account, amount_nanousd, reference, actor } = event;
      return { type, account, amount_nanousd, reference, actor };
    }
    case 'quota.adjusted': {
      const { type, account, key, end_user, session, meter, amount, reason, actor } = event;
      // Tokens and requests are no money.
      if (meter !== 'cost_nanousd') return null;
      return { type, account, key, end_user, session, amount_nanousd: amount, reason, actor };
    }
    default:
      return null;
  }
}

/** The fields that every event of a call has. */
function callFields(event: EventOf<'request.settled' | 'request.abandoned' | 'usage.adjusted'>) {
  const { type, account, key, request, model, route, end_user, session, tags, end_reason } = event;
  return { type, account, key, request, model, route, end_user, session, tags, end_reason };
}

function settled(event: EventOf<'request.settled'>): Spend {
  const { upstream, answered_model, status, usage_source, usage_details, price_version, price_plan } = event;
  const { input_tokens, cache_read_tokens, cache_write_tokens = 0, output_tokens, reasoning_tokens } = event;
  const { cost_nanousd, upstream_cost_nanousd = cost_nanousd } = event;
  return {
    ...callFields(event),
    ...{ answered_model, upstream, status },
    ...{ input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens },
    ...{ usage_details, usage_source, estimated: isEstimated(usage_source) },
    ...{ cost_nanousd, upstream_cost_nanousd, price_version, price_plan },
  };
}

function abandoned(event: EventOf<'request.abandoned'>): Spend {
  const { usage_source, hold_tokens, hold_cost_nanousd } = event;
  return {
    ...callFields(event),
    ...{ hold_tokens, usage_source, estimated: isEstimated(usage_source) },
    ...{ cost_nanousd: hold_cost_nanousd, upstream_cost_nanousd: hold_cost_nanousd },
  };
}

function adjusted(event: EventOf<'usage.adjusted'>): Spend {
  const { upstream, status, reference, reason, adjusted_by, hold_tokens } = event;
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens } = event;
  const { cost_nanousd, upstream_cost_nanousd = cost_nanousd } = event;
  return {
    ...callFields(event),
    ...{ upstream, status },
    ...{ input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, hold_tokens },
    ...{ cost_nanousd, upstream_cost_nanousd },
    ...{ reference, reason, actor: adjusted_by },
  };
}

/** What the filter of calls reads of a spend event. Payments have no model and no key. */
export function filteredCallOf(event: SpendEvent): FilteredCall {
  return {
    account: event.account,
    key: event.key ?? '',
    model: event.model ?? null,
    route: event.route ?? null,
    upstream: event.upstream ?? null,
    end_user: event.end_user ?? null,
    session: event.session ?? null,
    tags: event.tags ?? [],
    outcome: OUTCOME_OF[event.end_reason ?? 'completed'],
    status: event.status ?? null,
    error_code: null,
  };
}

/** Without what the operator pays, for readers of one account. */
export function withoutOperatorCost(event: SpendEvent): SpendEvent {
  const { upstream_cost_nanousd: _, ...shown } = event;
  return shown;
}

function withoutUndefined(event: Loose<SpendEvent>): SpendEvent {
  return Object.fromEntries(Object.entries(event).filter(([, value]) => value !== undefined)) as SpendEvent;
}
