import type { Client } from 'pg';
import { fullLogSource } from '#db/audit/source/full-log.ts';
import { databaseSource, type Source } from '#db/audit/source/source.ts';
import type { WindowKind } from '#db/limits/limits.ts';
import { windowStart, minuteOf } from '#db/limits/windows.ts';
import { isControl } from '#db/events/events.ts';
import { readAllCorrected } from '#db/log/read-corrections.ts';
import { allReadable, readEvents, readRows } from '#db/log/read.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { Backtest } from '#server/backtest/replay.ts';
import type { Changes } from '#server/backtest/candidate.ts';
import type { BacktestReport, DifferingCall } from '#server/contract/backtest.ts';

export type BacktestRun = {
  changes: Changes;
  from: Date;
  to: Date;
  /** Where archived partitions are; absent: the whole log is in the database. */
  archiveDir: string | undefined;
  onDifference?: (call: DifferingCall) => void;
  /** Called after each page, with the events done and all of them. */
  onProgress?: (done: number, of: number) => void;
  signal?: AbortSignal;
};

const FIRST_POSITION = 1;
/** The windows before a period that calls fill before it: those of the calendar, and lifetimes. */
const LONGEST = ['month', 'week'] as const satisfies readonly WindowKind[];

/**
 * Replays the calls of a period under other terms, prices or models. It reads the log page by page, from the
 * beginning of the month and of the week that the period begins in; from the first event on where a limit
 * counts a lifetime. It changes nothing.
 * @throws {ArchivedError} when a part of the events to read is archived, and no directory is given.
 */
export async function backtest(client: Client, run: BacktestRun): Promise<BacktestReport> {
  const { changes, from, to, archiveDir, onDifference = () => {}, onProgress, signal } = run;
  const live = await databaseSource(client);
  const period = (await live.seek(from)) ?? live.first;
  const last = ((await live.seek(to)) ?? live.head + 1) - 1;
  const corrections = await readAllCorrected(client, period);
  const replay = new Backtest({
    changes,
    fromMs: from.getTime(),
    toMs: to.getTime(),
    corrections,
    onDifference,
  });
  const first = Math.min(period, await firstOf(client, live, changes, from));
  const source = live.isLive(first) ? live : await fullLogSource(client, archiveDir);
  await readTerms(client, replay, first);
  const range = { after: first - 1, upTo: last };
  const of = Math.max(0, last - range.after);
  for await (const batches of source.read(range)) {
    signal?.throwIfAborted();
    for (const batch of batches) for (const read of readEvents(batch, range)) replay.apply(read);
    onProgress?.(Number(batches.at(-1)?.row.lastPosition ?? range.after) - range.after, of);
  }
  return replay.tally.report(replay.candidate.recorded, {
    from: from.toISOString(),
    to: to.toISOString(),
    first_position: first,
    period_position: period,
    last_position: last,
  });
}

/** The first position whose calls are charged to windows of the period. */
async function firstOf(client: Client, live: Source, changes: Changes, from: Date): Promise<number> {
  if (await countsLifetimes(client, changes)) return FIRST_POSITION;
  const minute = minuteOf(from.getTime());
  const start = Math.min(...LONGEST.map((window) => windowStart(window, minute)));
  return (await live.seek(new Date(start * 60_000))) ?? live.first;
}

/** Whether any terms, of any time, limit a lifetime. */
async function countsLifetimes(client: Client, { plan }: Changes): Promise<boolean> {
  const query = db
    .selectFrom('daybook.control_event')
    .select('position')
    .where(({ eb, or }) => or([eb('line', 'like', '%lifetime%'), eb('line', 'like', '%prepaid%')]))
    .limit(1);
  const terms = plan?.terms;
  return (
    (await rowOf(client, query)) !== undefined ||
    terms?.prepaid === true ||
    terms?.quotas?.some(({ window }) => window === 'lifetime') === true
  );
}

/** Applies the control events before a position. */
async function readTerms(client: Client, replay: Backtest, before: number): Promise<void> {
  for (let after = 0; ;) {
    const rows = await readRows(client, after, 'control');
    for (const placed of allReadable(rows))
      if (isControl(placed) && placed.position < before) replay.apply(placed);
    after = rows.at(-1)?.position ?? before;
    if (after >= before) return;
  }
}
