import type { ClientBase } from 'pg';
import type { EventOf, Placed } from '#db/events/events.ts';
import { BILLING_STREAM, INVOICE_STREAM } from '#db/events/streams.ts';
import { SHARD } from '#db/log/append.ts';
import { queryEntries } from '#db/log/entries.ts';
import { splitEntry } from '#db/log/line.ts';
import { positionAt } from '#db/log/lookup.ts';
import { LINE_COLUMNS, readHead } from '#db/log/read.ts';
import { readClock } from '#db/schema/query.ts';
import type { Statement, StatementGroup, StatementParameters } from '#db/statement/document.ts';
import { eventOfEntry } from '#db/statement/file.ts';
import { chargeOf, isOfBalance, StatementFold } from '#db/statement/fold.ts';
import { billingEventsOf, isBilledTo, openInvoices } from '#db/statement/invoices.ts';
import { PrepaidTimeline } from '#db/statement/prepaid.ts';
import { readRequestEntries } from '#db/statement/request-entries.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** Which statement to compute. */
export type StatementRequest = {
  account: string;
  key?: string | null;
  end_user?: string | null;
  from: Date;
  to: Date;
  group_by?: readonly StatementGroup[];
  /** The position up to which names and the issuer are read; absent: the head. */
  asOf?: number;
};

/** A statement with the entries of its events, in the order of the log. */
export type ReadStatement = { statement: Statement; entries: string[] };

/** Bounds of the computation of a statement; without them it reads all, as a command does. */
export type StatementBounds = {
  /** The most events that are kept for a proof; 0: none, so that memory doesn't grow. */
  entriesMax?: number;
  /** The most lines: of many end users, each has some. */
  linesMax?: number;
  /**
   * Runs between parts of some hundred events, and for each page; lets others run, or throws when the
   * time is over.
   */
  pause?: () => Promise<void>;
};

/** A file with its proof would have too many events. */
export class TooManyEventsError extends StoreError {
  override name = 'TooManyEventsError';
  constructor(max: number) {
    super(
      `the statement has more than ${max} events, the maximum of a file with its proof: divide the period`,
    );
  }
}

const EVENTS_PER_PART = 500;

/** An append that took its time before the end of a period commits within its timeout of 2 s, or not. */
const FINAL_AFTER_MS = 5_000;

/** A control event with its entry. */
export type ControlEntry = { entry: string; placed: Placed };

/**
 * Computes a statement from the log.
 * @throws {StoreError} when the account is unknown, or has more events or lines than a bound.
 * @throws {ArchivedError} when a part of the period is archived.
 */
export async function readStatement(
  client: ClientBase,
  request: StatementRequest,
  { entriesMax = 0, linesMax = Infinity, pause = proceed }: StatementBounds = {},
): Promise<ReadStatement> {
  const { account, key = null, end_user: endUser = null, from, to, group_by: groups = [] } = request;
  if (from >= to) throw new StoreError('the period is empty: "from" must be before "to"');
  const { origin } = await readLogState(client);
  const head = await readHead(client);
  const asOf = request.asOf ?? head;
  const nowMs = (await readClock(client)).getTime();
  const control = await readControl(client, request, asOf);
  const timeline = timelineOf(account, control);
  const isWhole = key === null && endUser === null;
  const invoices = key === null ? await readInvoicesOf(client, account) : [];
  const parameters: StatementParameters = {
    log: origin,
    account,
    key,
    end_user: endUser,
    from: from.toISOString(),
    to: to.toISOString(),
    corrections: null,
    group_by: [...groups],
    as_of: asOf,
    is_final: nowMs >= to.getTime() + FINAL_AFTER_MS,
    opening_balance_nanousd:
      isWhole && timeline.hasBalance
        ? String(await readOpening(client, account, from, { head, control, timeline, invoices, pause }))
        : null,
  };
  const fold = new StatementFold(parameters);
  const entries: string[] = [];
  const keysUsed = new Set<string>();
  const after = (await positionAt(client, from, head)) - 1;
  const upTo = (await positionAt(client, to, head)) - 1;
  const own = control.filter(({ placed }) => isUsed(placed, timeline.hasBalance && isWhole, from, to));
  own.push(...notesUsed(invoices, { account, end_user: endUser }, asOf, { after, upTo }));
  for (const { placed } of own) fold.add(placed);
  let count = own.length;
  for await (const page of readRequestEntries(client, { account, after, upTo, from, to })) {
    // Also where a page has no event of the account: it takes time to search.
    await pause();
    for (const [index, entry] of page.entries()) {
      if ((index + 1) % EVENTS_PER_PART === 0) await pause();
      const placed = eventOfEntry(entry);
      if (!isOfSubject(placed, key, endUser)) continue;
      if ('key' in placed.event && placed.event.key !== undefined) keysUsed.add(placed.event.key);
      fold.add(placed);
      if (entriesMax > 0) entries.push(entry);
      if (entriesMax > 0 && ++count > entriesMax) throw new TooManyEventsError(entriesMax);
    }
    if (fold.lineCount > linesMax)
      throw new StoreError(
        `the statement has more than ${linesMax} lines: divide the period, or group by fewer fields`,
      );
  }
  const names = groups.includes('key') ? await readKeyNames(client, keysUsed, asOf) : [];
  for (const { placed } of names) fold.add(placed);
  const used = [...own, ...names].map(({ entry }) => entry);
  return { statement: fold.result(), entries: entriesMax === 0 ? [] : inLogOrder([...used, ...entries]) };
}

const proceed = (): Promise<void> => Promise.resolve();

/** The entries in the order of their positions. */
export function inLogOrder(entries: readonly string[]): string[] {
  return entries
    .map((entry) => ({ entry, position: splitEntry(entry).place.position }))
    .toSorted((one, other) => one.position - other.position)
    .map(({ entry }) => entry);
}

/** The events that name keys, up to a position. */
export async function readKeyNames(
  client: ClientBase,
  keys: Iterable<string>,
  asOf: number,
): Promise<ControlEntry[]> {
  const read = await readStreamEntries(
    client,
    [...keys].map((key) => `key/${key}`),
  );
  return read.filter(
    ({ placed: { event, position } }) =>
      position <= asOf && (event.type === 'key.created' || event.type === 'key.renamed'),
  );
}

/** Whether an event of a request is of the key and the end user. */
function isOfSubject({ event }: Placed, key: string | null, endUser: string | null): boolean {
  return (
    (key === null || ('key' in event && event.key === key)) &&
    (endUser === null || ('end_user' in event && event.end_user === endUser))
  );
}

/** Whether a control event can change a figure of the statement. */
function isUsed({ event, at }: Placed, hasBalance: boolean, from: Date, to: Date): boolean {
  switch (event.type) {
    case 'account.registered':
    case 'billing.changed':
      return true;
    case 'quota.adjusted':
      return at >= from && at < to;
    default:
      return hasBalance;
  }
}

/**
 * The credit notes that bill corrections between two positions, and the events that take their invoices back.
 */
function notesUsed(
  invoices: readonly ControlEntry[],
  subject: { account: string; end_user: string | null },
  asOf: number,
  { after, upTo }: { after: number; upTo: number },
): ControlEntry[] {
  const corrected = new Set<number>();
  const notes = invoices.filter(({ placed: { event, position } }) => {
    if (event.type !== 'invoice.corrected' || position > asOf || !isBilledTo(event, subject)) return false;
    if (!event.corrections.some((each) => each > after && each <= upTo)) return false;
    corrected.add(event.invoice);
    return true;
  });
  const takenBack = invoices.filter(
    ({ placed: { event, position } }) =>
      event.type === 'invoice.credited' && position <= asOf && corrected.has(event.invoice),
  );
  return [...notes, ...takenBack];
}

/** The control events of an account, of the plans that it was on, of its quotas and of the issuer. */
export async function readControl(
  client: ClientBase,
  { account }: StatementRequest,
  asOf: number,
): Promise<ControlEntry[]> {
  const own = await readStreamEntries(client, [`account/${account}`, `quota/${account}`, BILLING_STREAM]);
  if (!own.some(({ placed }) => placed.event.type === 'account.registered'))
    throw new StoreError(`there is no account ${account}`);
  const plans = own.flatMap(({ placed: { event } }) =>
    event.type === 'account.plan_changed' && event.plan !== null ? [`plan/${event.plan}`] : [],
  );
  const ofPlans = await readStreamEntries(client, [...new Set(plans)]);
  const read = [...own, ...ofPlans].filter(({ placed: { position } }) => position <= asOf);
  const issuer = read.findLast(({ placed }) => placed.event.type === 'billing.changed');
  return read
    .filter((each) => each.placed.event.type !== 'billing.changed' || each === issuer)
    .toSorted((one, other) => one.placed.position - other.placed.position);
}

function timelineOf(account: string, control: readonly ControlEntry[]): PrepaidTimeline {
  const timeline = new PrepaidTimeline(account);
  for (const { placed } of control) timeline.apply(placed);
  return timeline;
}

const READ_STREAMS = `select ${LINE_COLUMNS} from daybook.control_event
  where shard = $1 and stream = any($2) order by position`;

async function readStreamEntries(client: ClientBase, streams: readonly string[]): Promise<ControlEntry[]> {
  if (streams.length === 0) return [];
  const entries = await queryEntries(client, 'read_stream_entries', READ_STREAMS, [SHARD, streams]);
  return entries.map((entry) => ({ entry, placed: eventOfEntry(entry) }));
}

/** The invoices and credit notes with their entries, in the order of their numbers. */
export async function readInvoices(client: ClientBase): Promise<ControlEntry[]> {
  return readStreamEntries(client, [INVOICE_STREAM]);
}

const READ_OF_ACCOUNT = `select ${LINE_COLUMNS} from daybook.control_event
  where shard = $1 and stream = $2 and account = $3 order by position`;

/** The same of one account. */
export async function readInvoicesOf(client: ClientBase, account: string): Promise<ControlEntry[]> {
  const values = [SHARD, INVOICE_STREAM, account];
  const entries = await queryEntries(client, 'read_invoices_of', READ_OF_ACCOUNT, values);
  return entries.map((entry) => ({ entry, placed: eventOfEntry(entry) }));
}

type Opening = {
  head: number;
  control: readonly ControlEntry[];
  timeline: PrepaidTimeline;
  /** Those of the account. */
  invoices: readonly ControlEntry[];
  pause: () => Promise<void>;
};

/**
 * The prepaid balance before a time: that of the account's last invoice before it, if there is one, and what
 * changed it since. Without one, all calls since the account was first prepaid are read.
 */
async function readOpening(
  client: ClientBase,
  account: string,
  until: Date,
  { head, control, timeline, invoices, pause }: Opening,
): Promise<bigint> {
  const carried = openInvoices(billingEventsOf(invoices.map(({ placed }) => placed)))
    .filter((invoice) => carriesTo(invoice, account, until))
    .toSorted((one, other) => Date.parse(one.to) - Date.parse(other.to))
    .at(-1);
  const from = new Date(carried?.to ?? 0);
  let balance = BigInt(carried?.closing_balance_nanousd ?? 0);
  for (const { placed } of control) {
    const { event, at } = placed;
    if (at < from || at >= until) continue;
    if (event.type === 'account.topped_up') balance += BigInt(event.amount_nanousd);
    if (event.type === 'quota.adjusted' && isOfBalance(event)) balance -= BigInt(event.amount);
  }
  const first = carried === undefined ? timeline.firstPosition : await positionAt(client, from, head);
  const after = first === null ? head : first - 1;
  const upTo = (await positionAt(client, until, head)) - 1;
  for await (const page of readRequestEntries(client, { account, after, upTo, from, to: until })) {
    // Also where a page has no event of the account: it takes time to search.
    await pause();
    for (const [index, entry] of page.entries()) {
      if ((index + 1) % EVENTS_PER_PART === 0) await pause();
      const { event } = eventOfEntry(entry);
      const isCharge =
        event.type === 'request.settled' ||
        event.type === 'request.abandoned' ||
        event.type === 'usage.adjusted';
      if (isCharge && timeline.isCharged(event.terms_position)) balance -= chargeOf(event);
    }
  }
  return balance;
}

/** Whether an invoice states a balance of the whole account at or before a time. */
function carriesTo(invoice: EventOf<'invoice.issued'>, account: string, until: Date): boolean {
  return (
    invoice.account === account &&
    invoice.end_user === undefined &&
    invoice.closing_balance_nanousd !== undefined &&
    Date.parse(invoice.to) <= until.getTime()
  );
}
