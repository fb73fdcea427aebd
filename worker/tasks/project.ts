import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { closeClient } from '#db/postgres/connect.ts';
import { type Page, projectPage, standAsideWithoutTables, takeSeat } from '#db/projections/project.ts';
import type { Projection, ProjectionName } from '#db/projections/projection.ts';
import { isLogFault } from '#db/projections/apply-batch.ts';
import { AutoResetEvent } from '../auto-reset-event.ts';
import { errorFields, type Logger } from '../logger.ts';

/**
 * The projector: one job that lives as long as its worker does, since a job per batch would cost
 * Postgres four times as much. Every worker adds it at its start, whenever another instance dies
 * and every minute; the newest takes the seat, and the one that had it ends. So a projector that
 * was killed, or is frozen, is replaced within seconds, and nobody has to find out whether it was.
 */
export type ProjectOptions = {
  projections: readonly Projection[];
  /** Opens a connection whose statements may take as long as a page does. */
  connect: () => Promise<Client>;
  /** Ends the job: its worker stops. */
  signal: AbortSignal;
  log: Logger;
  /** Told, again and again, which projections wait to be rebuilt. */
  onAside: (names: readonly ProjectionName[]) => Promise<void>;
};

/**
 * One page of a backlog. Sorting and merging fifty thousand events takes a second or two, on a busy disk some
 * more.
 */
export const PROJECT_TIMEOUT_MS = 60_000;

/**
 * After a page the projector rests, by how long that took: a page of ten events costs Postgres
 * nearly what one of a hundred does, about four milliseconds, so on a busy log fewer and larger ones
 * leave it to those who append. A single event on a quiet log is taken at once.
 */
const REST_FACTOR = 3;
const REST_MIN_MS = 5;
const REST_MAX_MS = 100;
/** How long a lost notification may go unnoticed. */
const POLL_MS = 500;
const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 1_000;
/** A log that is not whole is looked at again this often, and said to be so each time. */
const GAP_PAUSE_MS = 30_000;
/** How often it is looked whether tables are gone, and whether a projection that stands aside is rebuilt. */
const LOOK_EVERY_MS = 5_000;

/**
 * @returns whether the job has to go on elsewhere: `stopped` with its worker, or `unseated` by one that goes
 * on.
 */
export async function projectTask(options: ProjectOptions): Promise<'stopped' | 'unseated'> {
  const { signal, log } = options;
  let seat: number | null = null;
  let failures = 0;
  while (!signal.aborted) {
    let client: Client | undefined;
    try {
      client = await options.connect();
      seat ??= await takeSeat(client);
      if ((await follow(client, seat, options, () => (failures = 0))) === 'unseated') return 'unseated';
    } catch (error) {
      if (isLogFault(error))
        log.error({ fault: error.message }, 'the log is not whole; nothing is projected until it is');
      else log.warn(errorFields(error), 'projecting failed; it is tried again');
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
  seat: number,
  { projections, signal, log, onAside }: ProjectOptions,
  onPage: () => void,
): Promise<'stopped' | 'unseated'> {
  const bell = new AutoResetEvent();
  const ring = (): void => bell.set();
  client.on('notification', ring).on('error', ring).on('end', ring);
  signal.addEventListener('abort', ring);
  let lookedMs = -Infinity;
  try {
    await client.query('listen daybook_log; listen daybook_control');
    while (!signal.aborted) {
      const isLook = performance.now() - lookedMs > LOOK_EVERY_MS;
      if (isLook) {
        lookedMs = performance.now();
        await standAsideWithoutTables(client, projections);
      }
      const startedMs = performance.now();
      const page = await projectPage(client, { projections, seat });
      const tookMs = performance.now() - startedMs;
      onPage();
      if (page.kind === 'unseated') return 'unseated';
      if (page.kind === 'projected') {
        tell(page, log);
        if (page.aside.length > 0 && (isLook || page.broken.length > 0)) await onAside(page.aside);
        if (page.range.upTo < page.head && page.range.upTo > page.range.after) continue;
      }
      await rest(Math.min(REST_MAX_MS, Math.max(REST_MIN_MS, tookMs * REST_FACTOR)), signal);
      await bell.wait(POLL_MS);
    }
    return 'stopped';
  } finally {
    signal.removeEventListener('abort', ring);
  }
}

/** One line for each thing that somebody has to look at. */
function tell(page: Extract<Page, { kind: 'projected' }>, log: Logger): void {
  for (const { projection, position, reason } of page.parked) {
    log.error({ projection, position, reason }, 'an event could not be projected and was put aside');
  }
  for (const { projection, reason } of page.broken) {
    log.error({ projection, reason }, 'a projection is broken and stands aside; it is rebuilt');
  }
}

/** Waits, unless there is nothing to wait for any more. */
async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
