import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import { jobAlert, type JobFigures, jobTopic } from '#db/alerts/alerts.ts';

/** One row for each task: a handful. */
const JOBS = `select task, failures, reason,
    coalesce(extract(epoch from statement_timestamp() - failing_since) * 1000, 0)::float8 as failing_ms
  from daybook.job_status order by task`;

/** Raises an alert for each job that fails again and again, or has recovered. */
export async function watchJobs(client: ClientBase): Promise<void> {
  const { rows } = await client.query<JobFigures>(JOBS);
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
