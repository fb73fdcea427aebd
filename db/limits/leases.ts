import { type Client, DatabaseError } from 'pg';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METERS, type Meter } from '#db/limits/meters.ts';
import { FencedError } from '#db/log/append.ts';
import { ArrayColumn } from '#db/log/arrays.ts';

/** Taking, extending and giving back leases: the only SQL on allowances and leases. */

/** Which allowance: one limit of one account or key in one window. */
export type AllowanceName = {
  /** `account/<id>` or `key/<id>`. */
  subject: string;
  meter: Meter;
  window: WindowKind;
  /** The window's first minute since 1970; see db/limits/windows.ts. */
  start: number;
  /** The position of the control event that began the windows anew; 0 when none did. */
  reset: number;
};

/** What an instance says of one of its leases. All but `held` and `stock` are totals that only rise. */
export type LeaseLine = AllowanceName & {
  cap: number;
  /** The position of the newest control event that the cap comes from. */
  terms: number;
  /** The oldest terms that a call was charged to it under: recovery charges none that is older. */
  since: number;
  returned: number;
  /** Settled out of the lease, by endings up to {@link LeaseRequest.position}. */
  used: number;
  /** Settled beyond it. */
  overdrawn: number;
  held: number;
  /** Whether it keeps nothing beyond its holds, since the end is near. */
  strict: boolean;
  /** How much it would like to have in stock, beyond what its requests need; 0 for none. */
  stock: number;
};

/** What one waiting request needs of one line: at the least, and at best. */
export type Need = { line: number; minimum: number; wanted: number };

/** `lines` in the order of {@link compareNames}, each allowance once; `requests` in order of arrival. */
export type LeaseRequest = { position: number; lines: LeaseLine[]; requests: Need[][] };

export type LeaseLineResponse = {
  /** The allowance's number, by which it is recalled. */
  allowance: number;
  /** By the newest terms that anybody has told. */
  cap: number;
  /** All that this lease was ever granted. */
  granted: number;
  /** What nobody has leased; negative after an overdraft. */
  free: number;
  near: boolean;
  /** Over all instances, as far as they have reported: settled, and held by running requests. */
  used: number;
  held: number;
  /** Whether others may hold something that they don't need; they have been asked to give it back. */
  loose: boolean;
  /** The lease's own totals, as they are now known; see {@link LeaseLine}. */
  own: { returned: number; used: number; overdrawn: number };
};

/** For each request either what each of its needs was given, or the line that could not give. */
export type Grant = { amounts: number[] } | { shortOf: number };

export type LeaseResponse = { lines: LeaseLineResponse[]; requests: Grant[]; now: Date };

/** The one order in which everybody locks: that of Postgres over these columns. */
export function compareNames(left: AllowanceName, right: AllowanceName): number {
  if (left.subject !== right.subject) return left.subject < right.subject ? -1 : 1;
  return (
    METERS[left.meter].code - METERS[right.meter].code ||
    WINDOW_KINDS[left.window] - WINDOW_KINDS[right.window] ||
    left.start - right.start ||
    left.reset - right.reset
  );
}

const PARAMETERS = Array.from({ length: 20 }, (_, index) => `$${index + 1}`).join(',');
const EXCHANGE = `select allowance, cap, granted, free, near, used, held, loose, own_returned, own_used,
  own_overdrawn, given, now from daybook.exchange(${PARAMETERS})`;

type Row = {
  allowance: string[];
  cap: string[];
  granted: string[];
  free: string[];
  near: boolean[];
  used: string[];
  held: string[];
  loose: boolean[];
  own_returned: string[];
  own_used: string[];
  own_overdrawn: string[];
  given: string[];
  now: Date;
};

/**
 * Reports and asks in one transaction. Repeating a call whose answer was lost changes nothing that
 * the first did, except that what its requests were given is then granted and not known here: the
 * next answer's `granted` shows it.
 * @throws {FencedError} when the instance is no longer live. Any other error of `pg` passes as it is.
 */
export async function exchange(client: Client, instance: number, ask: LeaseRequest): Promise<LeaseResponse> {
  try {
    const result = await client.query<Row>({
      name: 'exchange',
      text: EXCHANGE,
      values: [instance, ask.position, ...columns(ask)],
    });
    return read(ask, result.rows[0] as Row);
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
    stock,
    request,
    needLine,
    minimum,
    wanted,
  ].map((column) => column.finish());
}

function read(ask: LeaseRequest, row: Row): LeaseResponse {
  let at = 0;
  const requests = ask.requests.map((needs): Grant => {
    const amounts = row.given.slice(at, at + needs.length).map(Number);
    at += needs.length;
    const short = amounts.indexOf(-1);
    return short < 0 ? { amounts } : { shortOf: (needs[short] as Need).line };
  });
  const lines = ask.lines.map((_, index) => ({
    allowance: Number(row.allowance[index]),
    cap: Number(row.cap[index]),
    granted: Number(row.granted[index]),
    free: Number(row.free[index]),
    near: row.near[index] as boolean,
    used: Number(row.used[index]),
    held: Number(row.held[index]),
    loose: row.loose[index] as boolean,
    own: {
      returned: Number(row.own_returned[index]),
      used: Number(row.own_used[index]),
      overdrawn: Number(row.own_overdrawn[index]),
    },
  }));
  return { lines, requests, now: row.now };
}

/** Forgets allowances of windows that ended long ago. @returns how many. */
export async function dropEndedAllowances(client: Client): Promise<number> {
  const result = await client.query<[string]>({
    text: 'select daybook.drop_ended_allowances()',
    rowMode: 'array',
  });
  return Number(result.rows[0]?.[0]);
}

/** What the store knows of an allowance: settled, and held by running calls, over all instances. */
export type AllowanceUsage = { used: number; held: number };

/** The standing of these allowances, in their order; nothing is used of one that nobody has needed yet. */
export async function readAllowanceUsage(
  client: Client,
  names: readonly AllowanceName[],
): Promise<AllowanceUsage[]> {
  const result = await client.query<[string, string]>({
    text: `select coalesce(a.used + a.overdrawn, 0), coalesce(a.held, 0)
      from unnest($1::text[], $2::smallint[], $3::smallint[], $4::integer[], $5::bigint[]) with ordinality
        as n(subject, meter, kind, start, reset, ordinal)
      left join daybook.allowance a on a.subject = n.subject and a.meter = n.meter and a.window_kind = n.kind
        and a.window_start = n.start and a.reset_position = n.reset
      order by n.ordinal`,
    values: [
      names.map(({ subject }) => subject),
      names.map(({ meter }) => METERS[meter].code),
      names.map(({ window }) => WINDOW_KINDS[window]),
      names.map(({ start }) => start),
      names.map(({ reset }) => reset),
    ],
    rowMode: 'array',
  });
  return result.rows.map(([used, held]) => ({ used: Number(used), held: Number(held) }));
}
