import { type Selectable, sql } from 'kysely';
import { type Client, DatabaseError } from 'pg';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METERS, type Meter } from '#db/limits/meters.ts';
import { FencedError } from '#db/log/append.ts';
import { ArrayColumn } from '#db/log/arrays.ts';
import { db, onlyRowOf, type Result, rowsOf } from '#db/schema/query.ts';
import type { Functions } from '#db/schema/tables.ts';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';

/**
 * Lease requests, and the usage of allowances, in Postgres. `daybook.exchange` has the only SQL that changes
 * leases.
 */

/** The identity of an allowance: one limit of one subject in one window. */
export type AllowanceName = {
  /** Its name; see db/limits/subjects.ts. */
  subject: string;
  meter: Meter;
  window: WindowKind;
  /** The window's first minute since 1970; see db/limits/windows.ts. */
  start: number;
  /** The position of the control event that last reset the windows; 0 if none did. */
  reset: number;
};

/** An instance's report of a lease. `returned`, `used` and `overdrawn` are totals, which only rise. */
export type LeaseLine = AllowanceName & {
  cap: number;
  /** The position of the control event that set the cap. */
  terms: number;
  /** The oldest terms of the calls charged to it: recovery charges no call of older terms. */
  since: number;
  returned: number;
  /** Units settled within the lease, by events up to {@link LeaseRequest.position}. */
  used: number;
  /** Units settled beyond the lease. */
  overdrawn: number;
  /** Units reserved by running calls. */
  held: number;
  /** Whether it keeps no free units, since the limit is near. */
  strict: boolean;
  /** Whether the lease is idle and ends, if it has no units left: recovery then skips it. */
  closes: boolean;
  /** Units wanted in addition to those that the requests need; 0 for none. */
  stock: number;
};

/** The units that a waiting request needs of a line: at least, and at best. */
export type Need = { line: number; minimum: number; wanted: number };

/** `lines` in the order of {@link compareNames}, each allowance once; `requests` in order of admission. */
export type LeaseRequest = { position: number; lines: LeaseLine[]; requests: Need[][] };

export type LeaseLineResponse = {
  /** The allowance's number, by which it is recalled. */
  allowance: number;
  /** Of the newest terms that any instance has reported. */
  cap: number;
  /** Units granted to this lease since it began. */
  granted: number;
  /** Units that no instance has leased; negative after an overdraft. */
  free: number;
  near: boolean;
  /** Over all instances, as of their last reports: units settled, and units reserved by running requests. */
  used: number;
  held: number;
  /** Whether other instances may have free units. They have been notified to return them. */
  recallable: boolean;
  /** The totals of this lease as stored; see {@link LeaseLine}. */
  own: { returned: number; used: number; overdrawn: number };
};

/** The units granted for each need of a request, or the line that was short. */
export type Grant = { amounts: number[] } | { shortOf: number };

export type LeaseResponse = { lines: LeaseLineResponse[]; requests: Grant[]; now: Date };

/** The order in which allowances are locked: that of Postgres over these columns. */
export function compareNames(left: AllowanceName, right: AllowanceName): number {
  if (left.subject !== right.subject) return left.subject < right.subject ? -1 : 1;
  return (
    METERS[left.meter].code - METERS[right.meter].code ||
    WINDOW_KINDS[left.window] - WINDOW_KINDS[right.window] ||
    left.start - right.start ||
    left.reset - right.reset
  );
}

const PARAMETERS = Array.from({ length: 21 }, (_, index) => `$${index + 1}`).join(',');
const EXCHANGE = `select allowance, cap, granted, free, near, used, held, recallable, own_returned, own_used,
  own_overdrawn, grants, now from daybook.exchange(${PARAMETERS})`;

type Row = Selectable<Functions['daybook.exchange']>;

/**
 * Sends a lease request, in one transaction. It may be repeated when its response was lost: the
 * reports are totals, and units granted for its requests appear in the `granted` of the next response.
 * @throws {FencedError} when the instance is no longer live. Any other error of `pg` is thrown as is.
 */
export async function exchange(
  client: Client,
  instance: number,
  request: LeaseRequest,
): Promise<LeaseResponse> {
  try {
    const values = [instance, request.position, ...columns(request)];
    const result = await retryTransaction(() =>
      client.query<Row>({ name: 'exchange', text: EXCHANGE, values }),
    );
    return parseResponse(request, result.rows[0] as Row);
  } catch (error) {
    if (error instanceof DatabaseError && error.code === 'DB001') throw new FencedError(error.message);
    throw error;
  }
}

function columns({ lines, requests }: LeaseRequest): Buffer[] {
  const subject = new ArrayColumn('text');
  const meter = new ArrayColumn('int2');
  const kind = new ArrayColumn('int2');
  const start = new ArrayColumn('int4');
  const strict = new ArrayColumn('bool');
  const closes = new ArrayColumn('bool');
  const numbers = [
    'reset',
    'cap',
    'terms',
    'since',
    'returned',
    'used',
    'overdrawn',
    'held',
    'stock',
  ] as const;
  const int8 = Object.fromEntries(numbers.map((name) => [name, new ArrayColumn('int8')])) as Record<
    (typeof numbers)[number],
    ArrayColumn
  >;
  for (const line of lines) {
    subject.addText(line.subject);
    meter.addInt2(METERS[line.meter].code);
    kind.addInt2(WINDOW_KINDS[line.window]);
    start.addInt4(line.start);
    strict.addBool(line.strict);
    closes.addBool(line.closes);
    for (const name of numbers) int8[name].addInt8(line[name]);
  }
  const request = new ArrayColumn('int4');
  const needLine = new ArrayColumn('int4');
  const minimum = new ArrayColumn('int8');
  const wanted = new ArrayColumn('int8');
  for (const [number, needs] of requests.entries()) {
    for (const need of needs) {
      request.addInt4(number);
      needLine.addInt4(need.line + 1);
      minimum.addInt8(need.minimum);
      wanted.addInt8(need.wanted);
    }
  }
  const { reset, cap, terms, since, returned, used, overdrawn, held, stock } = int8;
  return [
    subject,
    meter,
    kind,
    start,
    reset,
    cap,
    terms,
    since,
    returned,
    used,
    overdrawn,
    held,
    strict,
    closes,
    stock,
    request,
    needLine,
    minimum,
    wanted,
  ].map((column) => column.finish());
}

function parseResponse(request: LeaseRequest, row: Row): LeaseResponse {
  let at = 0;
  const requests = request.requests.map((needs): Grant => {
    const amounts = row.grants.slice(at, at + needs.length).map(Number);
    at += needs.length;
    const short = amounts.indexOf(-1);
    return short < 0 ? { amounts } : { shortOf: (needs[short] as Need).line };
  });
  const lines = request.lines.map((_, index) => ({
    allowance: Number(row.allowance[index]),
    cap: Number(row.cap[index]),
    granted: Number(row.granted[index]),
    free: Number(row.free[index]),
    near: row.near[index] as boolean,
    used: Number(row.used[index]),
    held: Number(row.held[index]),
    recallable: row.recallable[index] as boolean,
    own: {
      returned: Number(row.own_returned[index]),
      used: Number(row.own_used[index]),
      overdrawn: Number(row.own_overdrawn[index]),
    },
  }));
  return { lines, requests, now: row.now };
}

/** Rows deleted by one statement, of each kind of window: as many as take some tens of milliseconds. */
const DROPPED_MAX = 2_000;

/**
 * Deletes allowances of windows that ended long ago with their leases, and leases of instances that ended, in
 * statements of a bounded size.
 * @returns the number of allowances and leases that were named.
 */
export async function dropEnded(client: Client): Promise<number> {
  return (
    (await dropAll(client, 'daybook.drop_ended_allowances')) +
    (await dropAll(client, 'daybook.drop_ended_leases'))
  );
}

async function dropAll(
  client: Client,
  drop: 'daybook.drop_ended_allowances' | 'daybook.drop_ended_leases',
): Promise<number> {
  const query = db.selectNoFrom(({ fn, val }) =>
    fn<Result<typeof drop>>(drop, [val(DROPPED_MAX)]).as('dropped'),
  );
  let total = 0;
  for (;;) {
    const dropped = Number((await onlyRowOf(client, query)).dropped);
    total += dropped;
    if (dropped < DROPPED_MAX) return total;
  }
}

/** The usage of an allowance over all instances: units settled, and units reserved by running calls. */
export type AllowanceUsage = { used: number; held: number };

/** The usage of allowances, in their order; zero for an allowance without a lease yet. */
export async function readAllowanceUsage(
  client: Client,
  names: readonly AllowanceName[],
): Promise<AllowanceUsage[]> {
  type Name = { subject: string; meter: number; kind: number; start: number; reset: string; ordinal: string };
  const list = sql<Name>`unnest(${names.map(({ subject }) => subject)}::text[],
    ${names.map(({ meter }) => METERS[meter].code)}::smallint[],
    ${names.map(({ window }) => WINDOW_KINDS[window])}::smallint[],
    ${names.map(({ start }) => start)}::integer[],
    ${names.map(({ reset }) => reset)}::bigint[]) with ordinality`;
  const query = db
    .selectFrom(list.as<'n'>(sql`n(subject, meter, kind, start, reset, ordinal)`))
    .leftJoin('daybook.allowance as a', (join) =>
      join
        .onRef('a.subject', '=', 'n.subject')
        .onRef('a.meter', '=', 'n.meter')
        .onRef('a.window_kind', '=', 'n.kind')
        .onRef('a.window_start', '=', 'n.start')
        .onRef('a.reset_position', '=', 'n.reset'),
    )
    .select(({ eb }) => [
      eb(eb('a.used', '+', eb.ref('a.overdrawn')), '+', eb.ref('a.adjusted')).as('used'),
      'a.held',
    ])
    .orderBy('n.ordinal');
  const rows = await rowsOf(client, query);
  return rows.map(({ used, held }) => ({ used: Number(used ?? 0), held: Number(held ?? 0) }));
}
