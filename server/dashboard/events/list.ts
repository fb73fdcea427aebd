import type { ClientBase } from 'pg';
import { db, rowOf } from '#db/schema/query.ts';
import { EVENT_CODES, type EventType, type Placed } from '#db/events/events.ts';
import {
  type Direction,
  type EventFilter,
  lookThrough,
  lookThroughControl,
  positionAt,
  type Stretch,
} from '#db/log/lookup.ts';
import { firstPosition, type Read, readHead, UnreadableEventError } from '#db/log/read.ts';
import {
  EVENTS_CONTROL_LOOK_MAX,
  EVENTS_STEP_POSITIONS,
  EVENTS_STEPS_MAX,
} from '#server/dashboard/bounds.ts';
import type { EventPage, EventRow, EventsQuery } from '#server/contract/events.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { skipTo } from '#server/dashboard/events/skip.ts';
import { seesUpstreamCost, withoutUpstreamCost } from '#server/read/operator-fields.ts';
import type { Source } from '#server/read/store.ts';
import type { Scope } from '#server/read/scope.ts';

/** The log itself; the request table only narrows the search. */
export const EVENTS: Source = { projection: 'requests', tables: ['request'] };

/** Which events of which part of the log. */
export type EventsWanted = { filter: EventFilter; stretch: Stretch };

/** The result of one step: the events found, and the last position scanned. */
export type EventsStep = { rows: Read[]; lookedTo: number };

/** How much of the log one page scans: steps, and positions per step. */
export type EventsLook = { positions: number; steps: number };
const LOOK: EventsLook = { positions: EVENTS_STEP_POSITIONS, steps: EVENTS_STEPS_MAX };

const TYPES = Object.keys(EVENT_CODES) as EventType[];

/** The event types that a type or a prefix stands for. */
export const typesOf = (type: string): EventType[] =>
  TYPES.filter((each) => each === type || each.startsWith(`${type}.`));

/**
 * Resolves a query within a scope.
 * @param head the newest position of the log.
 * @returns null if the scope excludes everything.
 */
export async function eventsWanted(
  client: ClientBase,
  scope: Scope,
  query: EventsQuery,
  head: number,
): Promise<EventsWanted | null> {
  const { type, account = scope.account ?? undefined, key, member, request, at, from, to } = query;
  if (scope.account !== null && account !== scope.account) return null;
  const types = type === undefined ? undefined : typesOf(type);
  const after = from === undefined ? 0 : (await positionAt(client, from, head)) - 1;
  const before = to === undefined ? head : (await positionAt(client, to, head)) - 1;
  const given = { types, account, key, member, request };
  const filter: EventFilter = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  );
  return {
    filter,
    stretch: await narrowed(client, filter, { after, upTo: Math.min(before, at ?? head, head) }),
  };
}

/** Narrows the range to the first and last event of a request, if the request table has it. */
async function narrowed(client: ClientBase, { request }: EventFilter, stretch: Stretch): Promise<Stretch> {
  if (request === undefined) return stretch;
  const found = await rowOf(
    client,
    db.selectFrom('projection.request').select(['position', 'end_position']).where('request', '=', request),
  );
  if (!found) return stretch;
  return {
    after: Math.max(stretch.after, Number(found.position) - 1),
    upTo: Math.min(stretch.upTo, Number(found.end_position ?? stretch.upTo)),
  };
}

/** Whether only control events can match; they have an index of their own. */
function meansControl({ types, member }: EventFilter): boolean {
  return member !== undefined || (types?.every((type) => !type.startsWith('request.')) ?? false);
}

/**
 * One step through the range, from its end or its start: a bounded number of positions, or of control events
 * where only those can match or remain unarchived.
 * @param first the first position that isn't archived.
 * @param limit the most events to return.
 */
export async function stepThrough(
  client: ClientBase,
  { filter, stretch }: EventsWanted,
  first: number,
  direction: Direction,
  limit: number,
  positions = EVENTS_STEP_POSITIONS,
): Promise<EventsStep> {
  const { after, upTo } = stretch;
  const isArchived = direction === 'newest' ? upTo < first : after + 1 < first;
  if (meansControl(filter) || isArchived) {
    const part = meansControl(filter) ? stretch : { after, upTo: Math.min(upTo, first - 1) };
    return lookThroughControl(client, filter, part, direction, { limit, lookMax: EVENTS_CONTROL_LOOK_MAX });
  }
  const part =
    direction === 'newest'
      ? { after: Math.max(after, first - 1, upTo - positions), upTo }
      : { after, upTo: Math.min(upTo, after + positions) };
  const rows = await lookThrough(client, filter, part, direction, limit);
  const end = direction === 'newest' ? part.after + 1 : part.upTo;
  return { rows, lookedTo: rows.length === limit ? (rows.at(-1) as Read).position : end };
}

/**
 * One page, newest first. It scans a bounded part of the log, so a page may hold fewer events than its limit
 * and still have a next one.
 */
export async function listEvents(
  client: ClientBase,
  scope: Scope,
  query: EventsQuery,
  upTo: number | null,
  asOf: Freshness,
  look = LOOK,
): Promise<EventPage> {
  const head = await readHead(client);
  const wanted = await eventsWanted(client, scope, query, head);
  if (wanted === null) return { object: 'list', data: [], next: null, head, scanned_to: 1 };
  const { filter } = wanted;
  const first = await firstPosition(client);
  const found: Read[] = [];
  const left: Stretch = { after: wanted.stretch.after, upTo: Math.min(wanted.stretch.upTo, upTo ?? head) };
  for (let step = 0; step < look.steps && left.upTo > left.after && found.length < query.limit; step++) {
    const { rows, lookedTo } = await stepThrough(
      client,
      { filter, stretch: left },
      first,
      'newest',
      query.limit - found.length,
      look.positions,
    );
    found.push(...rows);
    left.upTo = lookedTo - 1;
    if (rows.length === 0 && left.upTo > left.after && !meansControl(filter))
      left.upTo = (await skipTo(client, filter, left.upTo, asOf)) ?? left.upTo;
  }
  const isDone = left.upTo <= left.after;
  return {
    object: 'list',
    data: found.flatMap((row) => (row instanceof UnreadableEventError ? [] : [eventRow(row, scope)])),
    next: isDone ? null : String(left.upTo),
    head,
    scanned_to: Math.max(left.after, left.upTo) + 1,
  };
}

/** An event as a row: its position, then the fields that the reader may see, without a secret's digest. */
export function eventRow(placed: Placed, scope: Scope): EventRow {
  const { position, at, instance, stream, version, event } = placed;
  const {
    type,
    actor = null,
    digest: _,
    ...fields
  } = (seesUpstreamCost(scope) ? event : withoutUpstreamCost(event)) as Placed['event'] & {
    actor?: string;
    digest?: string;
  };
  return { position, at: at.toISOString(), instance, stream, version, type, actor, fields };
}
