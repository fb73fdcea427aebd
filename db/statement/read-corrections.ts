import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { EVENT_CODES } from '#db/events/events.ts';
import { queryEntries } from '#db/log/entries.ts';
import { splitEntry } from '#db/log/line.ts';
import { positionAt } from '#db/log/lookup.ts';
import { LINE_COLUMNS, readHead, requireWhole } from '#db/log/read.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import type { StatementParameters } from '#db/statement/document.ts';
import { eventOfEntry } from '#db/statement/file.ts';
import { StatementFold } from '#db/statement/fold.ts';
import { type BilledSubject, INVOICE_GROUPS, isBilled, type Invoice } from '#db/statement/invoices.ts';
import {
  type ControlEntry,
  inLogOrder,
  readControl,
  readKeyNames,
  type ReadStatement,
} from '#db/statement/read.ts';
import { readEntriesAt } from '#db/statement/request-entries.ts';
import { readLogState } from '#db/tlog/log-state.ts';

/** Corrections of the calls of an invoice's period that were recorded after it, for credit notes. */

/** Of a credit note. */
type NoteRequest = BilledSubject & {
  from: Date;
  to: Date;
  asOf: number;
  /** The positions of its corrections. */
  corrections: readonly number[];
};

/** Positions that one statement searches. */
const SEARCHED_AT_ONCE = 100_000;
const ENDINGS = (['request.settled', 'request.abandoned'] as const).map((type) => `(${EVENT_CODES[type]}`);
const SEARCH = `select ${LINE_COLUMNS} from daybook.lines($1, $2)
  where split_part(line, ',', 2) = any($3) and split_part(line, ',', 1) = any($4)
  order by last_position, line_number`;

/** The positions from the first of a period to before the first behind it. */
type Stretch = { after: number; upTo: number };

/**
 * The positions of corrections that no document bills, of the calls of an invoice's period, in the order of
 * the log.
 * @param invoices all invoices and credit notes of the account.
 * @throws {ArchivedError} when a part of the period is archived and the projection lacks its calls.
 */
export async function readUnbilled(
  client: ClientBase,
  invoice: Invoice,
  invoices: readonly ControlEntry[],
): Promise<number[]> {
  const subject = { account: invoice.account, end_user: invoice.end_user ?? null };
  const stream = invoices.map(({ placed }) => placed);
  let query = db
    .selectFrom('daybook.correction')
    .select(['position', 'at', 'request'])
    .where('account', '=', subject.account)
    .where('at', '>=', new Date(invoice.to))
    .orderBy('position');
  if (subject.end_user !== null) query = query.where('end_user', '=', subject.end_user);
  const recorded = (await rowsOf(client, query))
    .map(({ position, at, request }) => ({ position: Number(position), at, request }))
    .filter((correction) => !isBilled(stream, subject, correction));
  if (recorded.length === 0) return [];
  const stretch = await stretchOf(client, new Date(invoice.from), new Date(invoice.to));
  const requests = [...new Set(recorded.map(({ request }) => request))];
  const ended = new Set((await readEndings(client, requests, stretch)).map(({ request }) => request));
  return recorded.filter(({ request }) => ended.has(request)).map(({ position }) => position);
}

/**
 * The statement of a credit note over corrections, with its entries.
 * @throws {ArchivedError} when a part of its events is archived.
 */
export async function readNote(client: ClientBase, request: NoteRequest): Promise<ReadStatement> {
  const { account, end_user: endUser, from, to, asOf } = request;
  const positions = [...request.corrections];
  const corrections = await collectEntries(client, positions);
  const events = corrections.map(eventOfEntry).map(({ event }) => event);
  const requests = events.flatMap((event) => (event.type === 'usage.adjusted' ? [event.request] : []));
  const endings = await readEndings(client, [...new Set(requests)], await stretchOf(client, from, to));
  const ended = await collectEntries(
    client,
    endings.map(({ position }) => position),
  );
  const { origin } = await readLogState(client);
  const control = (await readControl(client, { account, from, to }, asOf)).filter(
    ({ placed: { event } }) => event.type === 'account.registered' || event.type === 'billing.changed',
  );
  const keys = new Set(events.flatMap((event) => (event.type === 'usage.adjusted' ? [event.key] : [])));
  const names = await readKeyNames(client, keys, asOf);
  const entries = inLogOrder([...[...control, ...names].map(({ entry }) => entry), ...ended, ...corrections]);
  const parameters: StatementParameters = {
    log: origin,
    ...{ account, key: null, end_user: endUser },
    from: from.toISOString(),
    to: to.toISOString(),
    corrections: positions,
    group_by: [...INVOICE_GROUPS],
    as_of: asOf,
    is_final: true,
    opening_balance_nanousd: null,
  };
  const fold = new StatementFold(parameters);
  for (const entry of entries) fold.add(eventOfEntry(entry));
  return { statement: fold.result(), entries };
}

async function collectEntries(client: ClientBase, positions: readonly number[]): Promise<string[]> {
  const entries: string[] = [];
  for await (const page of readEntriesAt(client, positions)) entries.push(...page);
  return entries;
}

async function stretchOf(client: ClientBase, from: Date, to: Date): Promise<Stretch> {
  const head = await readHead(client);
  return {
    after: (await positionAt(client, from, head)) - 1,
    upTo: (await positionAt(client, to, head)) - 1,
  };
}

type EndingPlace = { request: string; position: number };

/** Where requests ended, of those that did in a part of the log, in its order. */
async function readEndings(
  client: ClientBase,
  requests: readonly string[],
  { after, upTo }: Stretch,
): Promise<EndingPlace[]> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('projection.request')
      .select(['request', 'end_position'])
      .where('request', '=', sql<string>`any(${requests}::uuid[])`)
      .where('end_position', 'is not', null),
  );
  const known = rows.map(({ request, end_position: position }) => ({ request, position: Number(position) }));
  const found = known.filter(({ position }) => position > after && position <= upTo);
  const projected = new Set(known.map(({ request }) => request));
  const others = requests.filter((request) => !projected.has(request));
  // Rows of calls are dropped after some months; the log has them.
  const searched = others.length === 0 ? [] : await searchEndings(client, others, { after, upTo });
  return [...found, ...searched].toSorted((one, other) => one.position - other.position);
}

async function searchEndings(
  client: ClientBase,
  requests: readonly string[],
  { after, upTo }: Stretch,
): Promise<EndingPlace[]> {
  const found: EndingPlace[] = [];
  for (let at = after; at < upTo; at += SEARCHED_AT_ONCE) {
    const values = [at, Math.min(at + SEARCHED_AT_ONCE, upTo), requests, ENDINGS];
    const entries = await queryEntries(client, 'search_endings', SEARCH, values);
    for (const entry of entries) {
      const { event } = eventOfEntry(entry);
      if (event.type === 'request.settled' || event.type === 'request.abandoned')
        found.push({ request: event.request, position: splitEntry(entry).place.position });
    }
  }
  await requireWhole(client, after);
  return found;
}
