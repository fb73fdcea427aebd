import { type CronItem, parseCronItems, type ParsedCronItem } from 'graphile-worker';

/**
 * The scheduled jobs. Any number of workers share the schedule: each job is added once, by the first
 * worker. A missed job is not caught up, since the next one does all of its work; its key keeps
 * unstarted jobs from piling up.
 */
const ITEMS: CronItem[] = [
  // The newest supersedes the running one, so that a hanging projector is replaced too.
  { task: 'project', match: '* * * * *' },
  // Each by itself, so that one that fails doesn't stop the others.
  { task: 'watch_projections', match: '* * * * *' },
  { task: 'watch_upstreams', match: '* * * * *' },
  { task: 'watch_usage_reports', match: '* * * * *' },
  { task: 'watch_keys', match: '* * * * *' },
  { task: 'watch_jobs', match: '* * * * *' },
  { task: 'watch_sinks', match: '* * * * *' },
  { task: 'email_statements', match: '* * * * *' },
  { task: 'watch_usage', match: '*/5 * * * *' },
  { task: 'watch_budgets', match: '*/15 * * * *' },
  // No more often: one event a minute is what a login may add to the log for each kind of reading.
  { task: 'append_readings', match: '* * * * *' },
  // Not on the full hour, when other hourly work runs.
  { task: 'retain', match: '17 * * * *' },
  { task: 'drop_allowances', match: '*/5 * * * *' },
  { task: 'make_partitions', match: '*/10 * * * *' },
  { task: 'archive', match: '37 * * * *' },
];

/** Without retries: the next run is due soon. */
export const CRONTAB: ParsedCronItem[] = parseCronItems(
  ITEMS.map((item) => ({
    ...item,
    options: { backfillPeriod: 0, maxAttempts: 1, jobKey: item.task, ...item.options },
  })),
);
