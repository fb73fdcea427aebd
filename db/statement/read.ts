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
import { readPeriod } from '#db/statement/period-entries.ts';
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
  /**
   * Whether all events are read, and no sums of the projection: of a document that the log will have, so
   * that no fault of a projection gets into it.
   */
  fromLog?: boolean;
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

/** A worker may project events between reading the head and the sums, outside of a transaction. */
const ATTEMPTS_MAX = 5;

/** An append that took its time before the end of a period commits within its timeout of 2 s, or not. */
const FINAL_AFTER_MS = 5_000;

/** A control event with its entry. */
export type ControlEntry = { entry: string; placed: Placed };

/**
 * Computes a statement: from sums of whole days that the projection keeps, and from the log for all else. For
 * a proof all of its events are read. The figures are the same either way, also where the projection lags.
 * @throws {StoreError} when the account is unknown, or has more events or lines than a bound.
 * @throws {ArchivedError} when a part of the period is archived.
 */
export async function readStatement(
  client: ClientBase,
  request: StatementRequest,
  bounds: StatementBounds = {},
): Promise<ReadStatement> {
  for (let attempt = 1; attempt < ATTEMPTS_MAX; attempt++) {
    const read = await readAt(client, request, bounds);
    if (read !== null) return read;
  }
  return (await readAt(client, { ...request, fromLog: true }, bounds)) as ReadStatement;
}

/** @returns null where the projection has events behind the head that the statement is as of. */
async function readAt(
  client: ClientBase,
  request: StatementRequest,
  { entriesMax = 0, linesMax = Infinity, pause = proceed }: StatementBounds,
): Promise<ReadStatement | null> {
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
  const hasSums = request.fromLog !== true && entriesMax === 0;
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
        ? String(
            await readOpening(client, account, from, { head, control, timeline, invoices, hasSums, pause }),
          )
        : null,
  };
  const fold = new StatementFold(parameters);
  const entries: string[] = [];
  const keysUsed = new Set<string>();
  const own = control.filter(({ placed }) => isUsed(placed, timeline.hasBalance && isWhole, from, to));
  own.push(...(await readNotesUsed(client, invoices, parameters, { from, to, head })));
  for (const { placed } of own) fold.add(placed);
  let count = own.length;
  const summed = groups.filter((group) => group !== 'end_user');
  const { sums, pages, position } = await readPeriod(
    client,
    { account, key, end_user: endUser, from, to, head },
    hasSums && endUser === null && summed.length === groups.length
      ? {
          group_by: summed,
          charged: timeline.chargedTerms,
          rowsMax: Number.isFinite(linesMax) ? linesMax + 1 : null,
        }
      : null,
  );
  // Of a period that is over, no event is behind the head.
  if (position > head && !parameters.is_final) return null;
  if (sums.length > linesMax) throw tooManyLines(linesMax);
  for (const sum of sums) {
    if (sum.key !== undefined) keysUsed.add(sum.key);
    fold.addSum(sum);
  }
  for await (const page of pages) {
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
    if (fold.lineCount > linesMax) throw tooManyLines(linesMax);
  }
  const names = groups.includes('key') ? await readKeyNames(client, keysUsed, asOf) : [];
  for (const { placed } of names) fold.add(placed);
  const used = [...own, ...names].map(({ entry }) => entry);
  return { statement: fold.result(), entries: entriesMax === 0 ? [] : inLogOrder([...used, ...entries]) };
}

const tooManyLines = (max: number): StoreError =>
  new StoreError(`the statement has more than ${max} lines: divide the period, or group by fewer fields`);

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

/** The credit notes that bill corrections of the period, and the events that take their invoices back. */
async function readNotesUsed(
  client: ClientBase,
  invoices: readonly ControlEntry[],
  subject: { account: string; end_user: string | null; as_of: number },
  { from, to, head }: { from: Date; to: Date; head: number },
): Promise<ControlEntry[]> {
  const known = invoices.filter(({ placed: { position } }) => position <= subject.as_of);
  const notes = known.flatMap((entry) => {
    const { event } = entry.placed;
    return event.type === 'invoice.corrected' && isBilledTo(event, subject) ? [{ entry, event }] : [];
  });
  if (notes.length === 0) return [];
  const first = await positionAt(client, from, head);
  const end = await positionAt(client, to, head);
  const used = notes.filter(({ event }) => event.corrections.some((each) => each >= first && each < end));
  const corrected = new Set(used.map(({ event }) => event.invoice));
  const takenBack = known.filter(
    ({ placed: { event } }) => event.type === 'invoice.credited' && corrected.has(event.invoice),
  );
  return [...used.map(({ entry }) => entry), ...takenBack];
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
  hasSums: boolean;
  pause: () => Promise<void>;
};

/**
 * The prepaid balance before a time: that of the account's last invoice before it, if there is one, and what
 * changed it since; without one, since the account was first prepaid.
 */
async function readOpening(
  client: ClientBase,
  account: string,
  until: Date,
  { head, control, timeline, invoices, hasSums, pause }: Opening,
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
  // Before it no call is charged to the balance.
  const after = timeline.firstPosition === null ? head : timeline.firstPosition - 1;
  const { sums, pages } = await readPeriod(
    client,
    { account, key: null, end_user: null, from, to: until, head, after },
    hasSums ? { group_by: [], charged: timeline.chargedTerms, rowsMax: null } : null,
  );
  for (const { charged_nanousd: charged } of sums) balance -= charged;
  for await (const page of pages) {
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
