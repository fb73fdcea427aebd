import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import { callAppend } from '#db/log/append.ts';
import { LineWriter } from '#db/log/line-writer.ts';
import { writeRequestLine } from '#db/log/request-line.ts';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';
import { countOf, db, type Queryable, rowOf, rowsOf } from '#db/schema/query.ts';
import type { StoredName, StoredPlace } from '#db/stored/places.ts';

/** All queries on calls whose responses go on in the background. */

/** A response with the upstream and credential that hold it. */
type Held = StoredName & Omit<StoredPlace, 'kind'>;

/** A call that a server is about to hand over. `hold_*` is its reservation. */
export type BegunCall = Held & {
  request: string;
  call: string;
  hold_tokens: number;
  hold_cost_nanousd: number | null;
};

/** A call that was handed over. `ending` is its ending, where that is known already. */
export type BackgroundCall = Held & {
  request: string;
  call: string;
  ending: string | null;
  hold_tokens: number;
  hold_cost_nanousd: number | null;
  ageMs: number;
};

/**
 * Records that a call may outlive its server.
 * @param instance that relays the reply. Without a live one it is an error: the call has been abandoned.
 */
export async function beginBackground(client: Queryable, instance: number, row: BegunCall): Promise<void> {
  const { request, account, id, upstream, credential, call, hold_tokens, hold_cost_nanousd } = row;
  await rowOf(
    client,
    sql`select daybook.begin_background(${instance}, ${request}, ${account}, ${id}, ${upstream},
      ${credential}, ${call}, ${hold_tokens}, ${hold_cost_nanousd})`,
  );
}

/** A call was handed over, with its last reservation: any server may settle it. */
export async function releaseBackground(
  client: Queryable,
  { request, ...changes }: Pick<BackgroundCall, 'request' | 'ending' | 'hold_tokens' | 'hold_cost_nanousd'>,
): Promise<void> {
  const query = db
    .updateTable('daybook.background_response')
    .set({ ...changes, holder: null, due_at: sql<Date>`statement_timestamp()` })
    .where('request', '=', request);
  await countOf(client, query);
}

/**
 * Takes calls whose provider is to be asked now: those that were handed over, and those of servers that were
 * recovered. No other server takes them meanwhile.
 * @param instance that takes them: when it is recovered, they are due again.
 * @param takenMs for how long.
 */
export async function takeDueBackground(
  client: Queryable,
  instance: number,
  limit: number,
  takenMs: number,
): Promise<BackgroundCall[]> {
  const due = db
    .selectFrom('daybook.background_response as d')
    .leftJoin('daybook.instance as i', 'i.id', 'd.holder')
    .select('d.request')
    .where('d.due_at', '<=', sql<Date>`statement_timestamp()`)
    .where((eb) => eb.or([eb('d.holder', 'is', null), eb('i.closed_at', 'is not', null)]))
    .orderBy('d.due_at')
    .limit(limit)
    .forUpdate('d')
    .skipLocked();
  const rows = await rowsOf(
    client,
    db
      .updateTable('daybook.background_response')
      .set({ due_at: inMs(takenMs), taken_by: instance })
      .where('request', 'in', due)
      .returning(['request', 'account', 'id', 'upstream', 'credential', 'call', 'ending'])
      .returning(['hold_tokens', 'hold_cost_nanousd'])
      .returning(sql<string>`extract(epoch from statement_timestamp() - created_at) * 1000`.as('age')),
  );
  return rows.map(({ age, hold_tokens, hold_cost_nanousd, ...row }) => ({
    ...row,
    hold_tokens: Number(hold_tokens),
    hold_cost_nanousd: hold_cost_nanousd === null ? null : Number(hold_cost_nanousd),
    ageMs: Number(age),
  }));
}

/** Asks the provider again after some time. */
export async function postponeBackground(client: Queryable, request: string, ms: number): Promise<void> {
  await countOf(
    client,
    db
      .updateTable('daybook.background_response')
      .set({ due_at: inMs(ms), taken_by: null })
      .where('request', '=', request),
  );
}

/** Asks the provider now. */
export async function hastenBackground(client: Queryable, { account, id }: StoredName): Promise<void> {
  await countOf(
    client,
    db
      .updateTable('daybook.background_response')
      .set({ due_at: inMs(0) })
      .where('account', '=', account)
      .where('id', '=', id),
  );
}

/** Whether the call of a response has no ending yet. */
export async function isInBackground(client: Queryable, { account, id }: StoredName): Promise<boolean> {
  const query = db
    .selectFrom('daybook.background_response')
    .select('request')
    .where('account', '=', account)
    .where('id', '=', id);
  return (await rowOf(client, query)) !== undefined;
}

const SETTLE = 'select daybook.settle_background($1, $2, $3)';
const line = new LineWriter();

/**
 * Appends the ending of a call in the background, and charges its limits with it in place of its reservation.
 * @returns false: it has its ending already, and nothing was done.
 * @throws {FencedError} when the instance is no longer live.
 */
export async function settleBackground(
  client: ClientBase,
  instance: number,
  event: EventOf<'request.settled' | 'request.abandoned'>,
): Promise<boolean> {
  writeRequestLine(line, event);
  const values = [instance, event.request, line.bytes.toString('latin1', 0, line.length)];
  return (await retryTransaction(() => callAppend(client, 'settle_background', SETTLE, values))) > 0;
}

const inMs = (ms: number) => sql<Date>`statement_timestamp() + ${ms} * interval '1 ms'`;
