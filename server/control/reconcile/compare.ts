import type { Client } from 'pg';
import { fullLogSource } from '#db/audit/source/full-log.ts';
import { databaseSource, type Source } from '#db/audit/source/source.ts';
import { EVENT_CODES, type Placed } from '#db/events/events.ts';
import type { EndedEvent } from '#db/fold/correction.ts';
import { publicId } from '#db/ids.ts';
import type { BatchEvents } from '#db/log/chain.ts';
import { readCorrected } from '#db/log/read-corrections.ts';
import { type LogRange, readEvents, readHead, UnreadableEventError } from '#db/log/read.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { attemptsOf } from '#db/reconcile/compare/attempts.ts';
import { tierOf } from '#db/reconcile/compare/bill-units.ts';
import { Comparison } from '#db/reconcile/compare/comparison.ts';
import type { Tolerance } from '#db/reconcile/compare/findings.ts';
import { type Report, reportOf } from '#db/reconcile/report/report.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { RECONCILE_CALLS } from '#server/control/bounds.ts';
import { mapCredentials, readLogTerms } from '#server/control/reconcile/log-terms.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** How a bill is compared; names of the bill are mapped to those of the relay. */
export type CompareTerms = {
  /** Empty: the calls of all upstreams. */
  upstreams: readonly string[];
  models: ReadonlyMap<string, string>;
  credentials: ReadonlyMap<string, string>;
  /** Billionths of a dollar for one unit of a currency. */
  rates: ReadonlyMap<string, bigint>;
  tolerance: Tolerance;
};

export type CompareRun = {
  /** Where archived partitions are; absent: the interval is in the database. */
  archiveDir?: string | undefined;
  /** Gets the number of positions read since the last call, and how many there are. */
  onProgress?: (done: number, of: number) => void;
  /** Ends the run between two pages of the log. */
  signal?: AbortSignal;
};

type EndedCall = Placed & { event: EndedEvent };

/** The types of ends: other lines aren't decoded. */
const ENDS = new Set((['request.settled', 'request.abandoned'] as const).map((type) => EVENT_CODES[type]));

/**
 * Compares a bill with the calls of the log in its interval. It reads the log, since no projection has the
 * credentials, tiers and provider's ids of attempts, and holds a batch of calls at a time.
 * @throws {DecisionError} when the bill has no lines, or a part of the interval is in the archive and no
 *   directory is given.
 */
export async function compareBill(
  client: Client,
  bill: Bill,
  terms: CompareTerms,
  { archiveDir, onProgress, signal }: CompareRun = {},
): Promise<Report> {
  if (bill.lines.length === 0) throw new DecisionError('invalid', 'The bill has no lines.');
  const { prices, credentials: logged } = await readLogTerms(client);
  const { credentials, areKnown } = mapCredentials(bill, logged, terms.credentials);
  const notes: string[] = [];
  const hasCredentials = bill.lines.some(({ credential }) => credential !== null);
  if (hasCredentials && !areKnown)
    notes.push(
      'Not compared by credential: the bill names none of this relay. Map them with --credential BILL=ID.',
    );
  if (bill.unsupported.length > 0)
    notes.push(`${bill.unsupported.length} positions of the bill are not compared: ${firstReasons(bill)}.`);
  const compared = areKnown
    ? bill
    : { ...bill, lines: bill.lines.map((line) => ({ ...line, credential: null })) };
  const comparison = new Comparison(compared, {
    models: terms.models,
    credentials,
    rates: terms.rates,
    tolerance: terms.tolerance,
    knownCredentials: new Set(logged.map(({ id }) => id)),
    upstreams: terms.upstreams.length === 0 ? null : new Set(terms.upstreams),
    otherRates: ({ model, startMs }, tier) =>
      prices.ratesOf(model, {
        minute: Math.floor(startMs / 60_000),
        inputTokens: 0,
        serviceTier: tierOf(tier) ?? undefined,
        upstream: terms.upstreams[0],
      }),
  });
  const { from, to } = comparison.range;
  const { source, first } = await sourceFrom(client, from, archiveDir);
  const last = ((await source.seek(to)) ?? source.head + 1) - 1;
  const range = { after: first - 1, upTo: last };
  const head = await readHead(client);
  const areCorrected = await hasCorrections(client);
  let waiting: EndedCall[] = [];
  const flush = async (): Promise<void> => {
    const ids = waiting.map(({ event }) => event.request);
    const corrected = areCorrected ? await readCorrected(client, ids) : new Map<string, never>();
    for (const placed of waiting)
      comparison.addCall(
        attemptsOf(placed, corrected.get(placed.event.request)?.added, (query) => prices.rateOf(query)),
      );
    waiting = [];
  };
  for await (const batches of source.read(range)) {
    signal?.throwIfAborted();
    for (const batch of batches) {
      waiting.push(...endsOf(batch, range));
      onProgress?.(Number(batch.row.eventCount), last - first + 1);
      if (waiting.length >= RECONCILE_CALLS) await flush();
    }
  }
  await flush();
  return reportOf(comparison.finish(), {
    reconciliation: publicId(),
    bill,
    tolerance: terms.tolerance,
    upstreams: terms.upstreams,
    notes,
    upToPosition: head,
  });
}

/**
 * The log from a time on: from archive files where a part is archived.
 * @throws {DecisionError} when their directory is not given.
 */
async function sourceFrom(
  client: Client,
  from: Date,
  archiveDir: string | undefined,
): Promise<{ source: Source; first: number }> {
  const live = await databaseSource(client);
  // The batches of archived events stay in the database, so that a time is always found.
  const first = (await live.seek(from)) ?? live.first;
  if (live.isLive(first)) return { source: live, first };
  if (archiveDir === undefined)
    throw new DecisionError(
      'not_allowed',
      `Calls of the interval are in the archive: the log begins at position ${live.first}, and the calls ` +
        `since ${from.toISOString()} at position ${first}. Name the directory of the archive files ` +
        '(--archive-dir or ARCHIVE_DIR), or restore them: daybook archive restore FILE.',
    );
  return { source: await fullLogSource(client, archiveDir), first };
}

/** The ended calls of a batch. */
function endsOf(batch: BatchEvents, range: LogRange): EndedCall[] {
  return readEvents(batch, range, ENDS).filter((read): read is EndedCall => {
    if (read instanceof UnreadableEventError) throw read;
    const { type } = read.event;
    return type === 'request.settled' || type === 'request.abandoned';
  });
}

async function hasCorrections(client: Client): Promise<boolean> {
  return (await rowOf(client, db.selectFrom('daybook.correction').select('position').limit(1))) !== undefined;
}

const firstReasons = ({ unsupported }: Bill): string =>
  unsupported
    .slice(0, 3)
    .map(({ place, reason }) => `${place}: ${reason}`)
    .join('; ');
