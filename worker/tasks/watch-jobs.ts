import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import { jobAlert, jobTopic } from '#db/alerts/alerts.ts';
import { db, rowsOf } from '#db/schema/query.ts';

/** Raises an alert for each job that fails again and again, or has recovered. */
export async function watchJobs(client: ClientBase): Promise<void> {
  const failingMs = sql<number>`coalesce(
    extract(epoch from statement_timestamp() - failing_since) * 1000, 0)::float8`;
  // One row for each task: a handful.
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.job_status')
      .select(['task', 'failures', 'reason', failingMs.as('failing_ms')])
      .orderBy('task'),
  );
  const raised = await readRaised(
    client,
    rows.map(({ task }) => jobTopic(task)),
  );
  await raiseAlerts(
    client,
    rows
      .map((figures) => jobAlert(figures, raised.get(jobTopic(figures.task)) ?? 0))
      .filter((alert) => alert !== null),
  );
}
