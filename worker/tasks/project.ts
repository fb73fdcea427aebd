import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { closeClient } from '#db/postgres/connect.ts';
import {
  detachWithoutTables,
  findReadable,
  type Page,
  projectPage,
  startEpoch,
} from '#db/projections/project.ts';
import type { Projection, ProjectionName } from '#db/projections/projection.ts';
import { isLogFault } from '#db/projections/apply-batch.ts';
import { AutoResetEvent } from '../auto-reset-event.ts';
import { PagePace } from '../page-pace.ts';
import type { JobReports } from '../job-status.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

/**
 * The projector: one job that lives as long as its worker does, since a job per batch would cost
 * Postgres four times as much. Every worker adds it at its start, whenever another instance dies
 * and every minute; the newest starts an epoch, and the projector of the earlier epoch ends. So a
 * projector that was killed or is frozen is replaced within seconds, without any failure detection.
 */
export type ProjectOptions = {
  projections: readonly Projection[];
  /** Opens a connection with a statement timeout for a page. */
  connect: () => Promise<Client>;
  /** Ends the job: its worker stops. */
  signal: AbortSignal;
  log: Logger;
  /** Reports an attempt that failed, and that a page was projected. */
  reports: Pick<JobReports, 'failed' | 'succeeded'>;
  /** Called repeatedly with the projections that wait for a rebuild, if any. */
  onOutdated: (names: readonly ProjectionName[]) => Promise<void>;
};

const TASK = 'project';

/** For a page of a backlog: sorting and merging 50,000 events takes 1 to 2 s, and more on a busy disk. */
export const PROJECT_TIMEOUT_MS = 60_000;

/** Another projector or a rebuild, which has the lock, does not report its end. */
const BUSY_MS = 500;
const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 1_000;
/** A log with a gap is read again this often, and logged each time. */
const GAP_PAUSE_MS = 30_000;
/** How often missing tables are detected, and detached projections queued for a rebuild. */
const CHECK_EVERY_MS = 5_000;

/**
 * @returns whether the job must continue elsewhere: `stopped` with its worker, or `superseded` by a newer
 * one.
 */
export async function projectTask(options: ProjectOptions): Promise<'stopped' | 'superseded'> {
  const { signal, log, reports } = options;
  let epoch: number | null = null;
  let failures = 0;
  while (!signal.aborted) {
    let client: Client | undefined;
    try {
      client = await options.connect();
      epoch ??= await startEpoch(client);
      if ((await follow(client, epoch, options, () => (failures = 0))) === 'superseded') return 'superseded';
    } catch (error) {
      if (isLogFault(error)) log.error({ fault: error.message }, 'log has a gap; projecting paused');
      await reports.failed(TASK, error);
      await rest(
        isLogFault(error) ? GAP_PAUSE_MS : Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** failures++),
        signal,
      );
    } finally {
      if (client !== undefined) await closeClient(client).catch(() => undefined);
    }
  }
  return 'stopped';
}

async function follow(
  client: Client,
  epoch: number,
  { projections, signal, log, reports, onOutdated }: ProjectOptions,
  onPage: () => void,
): Promise<'stopped' | 'superseded'> {
  const wakeUp = new AutoResetEvent();
  const pace = new PagePace();
  const wake = (): void => wakeUp.set();
  client.on('notification', wake).on('error', wake).on('end', wake);
  signal.addEventListener('abort', wake);
  let checkedMs = -Infinity;
  try {
    await client.query('listen daybook_log; listen daybook_control');
    while (!signal.aborted) {
      const isCheck = performance.now() - checkedMs > CHECK_EVERY_MS;
      if (isCheck) {
        checkedMs = performance.now();
        await detachWithoutTables(client, projections);
      }
      const startedMs = performance.now();
      const page = await projectPage(client, { projections, epoch });
      const endedMs = performance.now();
      onPage();
      await reports.succeeded(TASK);
      if (page.kind === 'superseded') return 'superseded';
      if (page.kind === 'projected') {
        logFaults(page, log);
        const readable = isCheck ? await findReadable(client) : [];
        if (isCheck || page.broken.length > 0)
          await onOutdated([...new Set([...page.detached, ...readable])]);
        if (page.range.upTo < page.head && page.range.upTo > page.range.after) continue;
      }
      // Also after a page without events: a lock that is taken must not be tried for each notification.
      await rest(pace.restAfter(startedMs, endedMs), signal);
      await wakeUp.wait(page.kind === 'busy' ? BUSY_MS : CHECK_EVERY_MS);
    }
    return 'stopped';
  } finally {
    signal.removeEventListener('abort', wake);
  }
}

/** One line for each fault that needs an operator. */
function logFaults(page: Extract<Page, { kind: 'projected' }>, log: Logger): void {
  for (const { projection, position, reason } of page.parked) {
    log.error({ projection, position, reason }, 'event could not be projected; parked');
  }
  for (const { projection, reason } of page.broken) {
    log.error({ projection, reason }, 'projection detached after an error; rebuilding');
  }
}

/** Waits, or until the job ends. */
async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
