import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';
import { SHARD } from '#db/log/append.ts';
import { AT_US } from '#db/log/columns.ts';
import { entryOf } from '#db/log/line.ts';
import { readCorrectionPositions } from '#db/log/read-corrections.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { inclusionSpans, readSpans } from '#db/tlog/proof.ts';
import { type Receipt, RECEIPT_EVENTS_MAX } from '#db/tlog/receipt.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { cosignedBy, readCoveringCheckpoint } from '#db/tlog/checkpoint-store.ts';
import { hashesFromDatabase } from '#db/tlog/tiles.ts';
import { REQUEST_DETAIL_LOOK_MAX } from '#server/read/bounds.ts';
import type { Functions } from '#db/schema/tables.ts';
import type { Source } from '#server/read/store.ts';
import { subjectConditions } from '#server/read/request-filter.ts';
import type { Scope } from '#server/read/scope.ts';
import { ApiError } from '#server/errors/api-error.ts';

export const RECEIPTS: Source = { projection: 'requests', tables: ['request'] };

type EventEntry = { position: number; entry: string; format: string };

/**
 * The receipt of a request that has ended.
 * @param witnesses verifier keys of the witnesses whose cosignatures it includes.
 * @returns null if the request is unknown or outside the scope; an error if there is no receipt (yet).
 */
export async function issueReceipt(
  client: ClientBase,
  scope: Scope,
  request: string,
  witnesses: readonly string[],
): Promise<Receipt | ApiError | null> {
  let query = db
    .selectFrom('projection.request')
    .select(['position', 'end_position'])
    .where('request', '=', request);
  for (const condition of subjectConditions(scope, {})) query = query.where(condition);
  const place = await rowOf(client, query);
  if (place === undefined) return null;
  if (place.end_position === null)
    return new ApiError('receipt_not_ready', {
      message: 'This request is still running. Its receipt is available after it ends.',
    });
  const [first, last] = [Number(place.position), Number(place.end_position)];
  const corrections = await readCorrectionPositions(client, request, RECEIPT_EVENTS_MAX);
  const stored = await readCoveringCheckpoint(client, corrections.at(-1) ?? last);
  if (stored === null)
    return new ApiError('receipt_not_ready', {
      message:
        'No checkpoint covers this request yet. A running worker publishes one every ten seconds. Try again.',
    });
  const elsewhere = await whereArchived(client, [first, last, ...corrections]);
  if (elsewhere) return elsewhere;
  const { events, hasAll } = await readEvents(client, request, first, last, corrections);
  const { origin, signing } = await readLogState(client);
  const proved = await prove(client, events, stored.size).catch((error: unknown) => {
    if (error instanceof MissingHashesError)
      return archived(
        'Events that stand beside those of this request are in the archive, and the proof takes them.',
      );
    throw error;
  });
  if (proved instanceof ApiError) return proved;
  const { checkpoint, witnesses: signedBy } = cosignedBy(stored, witnesses);
  return {
    receipt: 'daybook receipt 1',
    request: request.toLowerCase(),
    log: origin,
    has_all_events: hasAll,
    events: proved,
    checkpoint,
    keys: signing.keys
      .map(({ verifierKey }) => verifierKey)
      .filter((line) => parseVerifierKey(line).name === origin),
    witnesses: signedBy,
  };
}

async function prove(
  client: ClientBase,
  events: readonly EventEntry[],
  size: number,
): Promise<Receipt['events']> {
  const read = hashesFromDatabase(client, size);
  const proved: Receipt['events'] = [];
  for (const { position, entry, format } of events) {
    const proof = await readSpans(inclusionSpans(position - 1, size), read);
    proved.push({
      position,
      entry,
      format,
      index: position - 1,
      proof: proof.map((hash) => hash.toString('base64')),
    });
  }
  return proved;
}

/** An error with the archive files that hold these positions, if they aren't in the database. */
async function whereArchived(client: ClientBase, positions: readonly number[]): Promise<ApiError | null> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.log_partition')
      .select(sql<string>`manifest->>'file'`.as('file'))
      .where('archived_at', 'is not', null)
      .where(sql<boolean>`not daybook.is_attached(name)`)
      .where(
        sql<boolean>`exists (select from unnest(${positions}::bigint[]) as wanted(position)
          where wanted.position >= first_position and wanted.position < end_position)`,
      )
      .orderBy('number'),
  );
  return rows.length === 0
    ? null
    : archived(
        `The events of this request are in ${rows.map(({ file }) => file).join(' and ')} of the archive.`,
      );
}

const archived = (where: string): ApiError =>
  new ApiError('events_archived', {
    message: `${where} For a receipt, the operator must restore that part: daybook archive restore.`,
  });

/** The events of a request from one position to another, each with the format that its batch names. */
const linesOf = (request: string, from: number, to: number) =>
  db
    .selectFrom(sql<Functions['daybook.lines']>`daybook.lines(${from - 1}, ${to})`.as('event'))
    .select(['position', 'instance', 'line', sql<string>`${sql.raw(AT_US)}`.as('at_us')])
    .select(({ selectFrom }) =>
      selectFrom('daybook.log_batch')
        .select(({ cast }) => cast<string>('format', 'text').as('format'))
        .where('shard', '=', SHARD)
        .whereRef('last_position', '>=', 'event.position')
        .orderBy('last_position')
        .limit(1)
        // Every event at or below the head is in a batch.
        .$asScalar()
        .$notNull()
        .as('format'),
    )
    .where(sql`split_part(line, ',', 2)`, '=', request)
    .orderBy('position')
    .limit(RECEIPT_EVENTS_MAX);

/** All its events or, if its first and last event are too far apart to search between, those two. */
async function readEvents(
  client: ClientBase,
  request: string,
  first: number,
  last: number,
  corrections: readonly number[],
): Promise<{ events: EventEntry[]; hasAll: boolean }> {
  const read = (from: number, to: number) => rowsOf(client, linesOf(request.toLowerCase(), from, to));
  const rows = last - first <= REQUEST_DETAIL_LOOK_MAX ? await read(first, last) : [];
  const isWhole = rows.length > 0 && rows.length + corrections.length < RECEIPT_EVENTS_MAX;
  const all = isWhole ? rows : [...(await read(first, first)), ...(await read(last, last))];
  for (const position of corrections.slice(0, RECEIPT_EVENTS_MAX - all.length))
    all.push(...(await read(position, position)));
  return {
    events: all.map(({ position, at_us: atUs, instance, line, format }) => ({
      position: Number(position),
      entry: entryOf({ shard: SHARD, position: Number(position), atUs, instance }, line),
      format,
    })),
    hasAll: isWhole,
  };
}
