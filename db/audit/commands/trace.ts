import { sql } from 'kysely';
import type { Client } from 'pg';
import { asAuditor } from '#db/audit/commands/auditor.ts';
import { recordReading } from '#db/audit/commands/source-options.ts';
import { describeEvent } from '#db/audit/commands/trace-text.ts';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { RequestId } from '#db/events/parts.ts';
import type { RequestEvent } from '#db/events/events.ts';
import { db, onlyRowOf, rowOf } from '#db/schema/query.ts';
import { batchOf, lookThrough, positionAt, type Stretch } from '#db/log/lookup.ts';
import { allReadable, firstPosition, readHead } from '#db/log/read.ts';
import { readCorrectionPositions } from '#db/log/read-corrections.ts';
import { readLeaves } from '#db/tlog/hashes.ts';
import { CLOCK_SKEW_MAX_MS, STRETCH_POSITIONS, TRACED_EVENTS_MAX } from '#db/audit/bounds.ts';

/** One event of a request, with its batch and its leaf hash. */
type Traced = {
  position: number;
  at: string;
  batch: { last_position: number; event_count: number; instance: number; batch_no: number; chain: string };
  /** Its RFC 6962 leaf hash, in hexadecimal. */
  leaf_hash: string;
  description: string;
  event: RequestEvent;
};

/** `daybook audit trace`: every event of one request, its corrections included. */
export function traceCommand(audit: Command): void {
  withJson(audit.command('trace').argument('<request>', "the request's id"))
    .description('show every event and correction of one request, with its position, batch and leaf hash')
    .action((given: string, _options: object, command: Command) =>
      asAuditor(command, async (client) => {
        if (!RequestId.safeParse(given).success)
          throw new StoreError(
            `"${given}" is not a request id. Responses carry it in the x-request-id header`,
          );
        const request = given.toLowerCase();
        const first = await firstPosition(client);
        const head = await readHead(client);
        await recordReading(command, client, 'trace', { after: first - 1, upTo: head });
        const found = await find(client, request, { after: first - 1, upTo: head });
        if (found.length === 0) {
          const archived =
            first > 1
              ? `. Events before position ${first} are archived: run daybook archive restore to search them`
              : '';
          throw new StoreError(
            `request ${request} has no event in the log from position ${first} to ${head}${archived}`,
          );
        }
        const corrections = await readCorrectionPositions(client, request, TRACED_EVENTS_MAX);
        const traced: Traced[] = [];
        for (const position of new Set([...found, ...corrections.filter((each) => each <= head)])) {
          const event = await trace(client, position);
          // A row of the table is only a hint.
          if (event.event.request === request) traced.push(event);
        }
        print(command, { request, events: traced }, showTrace);
      }),
    );
}

/**
 * Finds the positions of a request's events. The requests projection says where to look; without it the
 * timestamp in the UUIDv7 does.
 */
async function find(client: Client, request: string, log: Stretch): Promise<number[]> {
  const hint = await hintOf(client, request);
  if (hint !== null && hint.first > log.after) {
    const found = await walk(
      client,
      request,
      { after: hint.first - 1, upTo: hint.last ?? log.upTo },
      'forward',
    );
    if (found.length > 0) return found;
  }
  const createdAtMs = Number.parseInt(request.replaceAll('-', '').slice(0, 12), 16);
  const from =
    request[14] === '7'
      ? await positionAt(client, new Date(createdAtMs - CLOCK_SKEW_MAX_MS), log.upTo)
      : log.upTo + 1;
  const found = await walk(
    client,
    request,
    { after: Math.max(log.after, from - 1), upTo: log.upTo },
    'forward',
  );
  return found.length > 0
    ? found
    : walk(client, request, { after: log.after, upTo: Math.min(log.upTo, from - 1) }, 'backward');
}

/**
 * Where the projection locates a request; null if it has no such row or does not exist. The log is the source
 * of truth and is read in any case.
 */
async function hintOf(
  client: Client,
  request: string,
): Promise<{ first: number; last: number | null } | null> {
  const table = sql<boolean>`to_regclass('projection.request') is not null`.as('is_there');
  if (!(await onlyRowOf(client, db.selectNoFrom(table))).is_there) return null;
  const row = await rowOf(
    client,
    db.selectFrom('projection.request').select(['position', 'end_position']).where('request', '=', request),
  );
  return row
    ? { first: Number(row.position), last: row.end_position === null ? null : Number(row.end_position) }
    : null;
}

/** Scans a range in steps, until the request has ended or, backward, was accepted. */
async function walk(
  client: Client,
  request: string,
  { after, upTo }: Stretch,
  direction: 'forward' | 'backward',
): Promise<number[]> {
  const found: number[] = [];
  let isDone = false;
  for (let done = 0; done < upTo - after && !isDone; done += STRETCH_POSITIONS) {
    const stretch =
      direction === 'forward'
        ? { after: after + done, upTo: Math.min(upTo, after + done + STRETCH_POSITIONS) }
        : { after: Math.max(after, upTo - done - STRETCH_POSITIONS), upTo: upTo - done };
    const events = allReadable(await lookThrough(client, { request }, stretch, 'oldest', TRACED_EVENTS_MAX));
    found.push(...events.map(({ position }) => position));
    const last =
      direction === 'forward'
        ? ['request.settled', 'request.abandoned', 'request.rejected', 'tokens.counted', 'workload.exchanged']
        : ['request.accepted', 'request.rejected', 'tokens.counted', 'workload.exchanged'];
    isDone = events.some(({ event }) => last.includes(event.type));
  }
  return found.toSorted((one, other) => one - other);
}

async function trace(client: Client, position: number): Promise<Traced> {
  const [leaf] = await readLeaves(client, position - 1, position);
  const batch = await rowOf(
    client,
    batchOf(position).select(['last_position', 'event_count', 'instance', 'batch_no', 'chain']),
  );
  const [placed] = allReadable(
    await lookThrough(client, {}, { after: position - 1, upTo: position }, 'oldest', 1),
  );
  if (leaf === undefined || placed === undefined || batch === undefined)
    throw new StoreError(`position ${position} of the log can no longer be read`);
  const { last_position, event_count, instance, batch_no } = batch;
  const chain = batch.chain.toString('hex');
  const event = placed.event as RequestEvent;
  return {
    position,
    at: placed.at.toISOString(),
    batch: { last_position: Number(last_position), event_count, instance, batch_no: Number(batch_no), chain },
    leaf_hash: leaf.toString('hex'),
    description: describeEvent(event),
    event,
  };
}

function showTrace({ request, events }: { request: string; events: readonly Traced[] }): string {
  const lines = events.map(({ position, at, batch, leaf_hash, description: words }) =>
    [
      `position ${position}, ${at}: ${words}`,
      `  batch ${batch.batch_no} of instance ${batch.instance}, ${batch.event_count} events up to ` +
        `position ${batch.last_position}`,
      `  leaf hash ${leaf_hash}`,
    ].join('\n'),
  );
  return [`Request ${request}`, ...lines].join('\n');
}
