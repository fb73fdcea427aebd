import { sql } from 'kysely';
import type { Client } from 'pg';
import { BEHIND_MS } from '#db/alerts/alerts.ts';
import { readWaitingMs } from '#db/log/lookup.ts';
import { readProjectionStatus } from '#db/projections/state.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import type { Finding } from '#server/cli/doctor/finding.ts';

/**
 * Checks the projections. A detached projection and a parked event are problems, and so is usage data that is
 * older than the alert allows while a server runs, whether or not a worker does.
 */
export async function checkProjections(client: Client): Promise<Finding> {
  const instances = await readInstances(client);
  const workers = instances.filter(({ name }) => name.startsWith('worker '));
  const serves = instances.some(({ name }) => name.startsWith('server '));
  const statuses = await readProjectionStatus(client);
  const lines = statuses.map(({ projection, position, behind, parked, state }) => {
    const more = [
      state === 'detached' ? 'detached until rebuilt' : `${behind} behind`,
      ...(parked > 0 ? [`${parked} parked events`] : []),
    ];
    return `${projection} at ${position} (${more.join(', ')})`;
  });
  const live = statuses.filter(({ state }) => state === 'live');
  const lagMs =
    live.length === 0 ? 0 : await readWaitingMs(client, Math.min(...live.map(({ position }) => position)));
  const isLate = serves && lagMs >= BEHIND_MS;
  if (isLate) {
    const advice = workers.length === 0 ? 'start a worker' : 'see the log of the worker for the reason';
    lines.unshift(`usage data is ${Math.round(lagMs / 1_000)} s old: ${advice}`);
  }
  return {
    check: 'worker and projections',
    ok: !isLate && statuses.every(({ state, parked }) => state === 'live' && parked === 0),
    detail: [`${workers.length} worker(s) running`, ...lines].join('; '),
  };
}

/** Checks that no background job of the worker fails. */
export async function checkJobs(client: Client): Promise<Finding> {
  const query = db.selectFrom('daybook.job_status').selectAll().where('failures', '>', 0).orderBy('task');
  const failing = (await rowsOf(client, query)).map(
    ({ task, failures, reason, failing_since }) =>
      `${task} has failed ${failures} time(s) since ${failing_since?.toISOString() ?? 'an unknown time'} ` +
      `(${reason ?? 'unknown reason'})`,
  );
  const detail =
    failing.length === 0 ? 'none is failing' : `${failing.join('; ')}: see the log of the worker`;
  return { check: 'background jobs', ok: failing.length === 0, detail };
}

/** Checks that the diagnostic lines of all running processes are written. */
export async function checkOutput(client: Client): Promise<Finding> {
  const lossy = (await readInstances(client)).filter(
    ({ dropped, failure }) => dropped > 0 || failure !== null,
  );
  const lines = lossy.map(({ name, dropped, failure }) => {
    const state = failure === null ? 'works again' : `fails with ${failure}`;
    return `output of ${name} ${state}, ${dropped} lines dropped`;
  });
  return {
    check: 'diagnostic output',
    ok: lossy.every(({ failure }) => failure === null),
    detail: lines.length === 0 ? 'no line was dropped' : lines.join('; '),
  };
}

type Running = { name: string; dropped: number; failure: string | null };

async function readInstances(client: Client): Promise<Running[]> {
  const query = db
    .selectFrom('daybook.instance')
    .select(['name', 'output_failure as failure'])
    .select(sql<number>`dropped_lines::float8`.as('dropped'))
    .where('dead_at', 'is', null)
    .orderBy('id');
  return rowsOf(client, query);
}
