import { type CronItem, parseCronItems, type ParsedCronItem } from 'graphile-worker';
import { REPEATED } from './repeat.ts';

/**
 * What is done by the clock. Any number of workers share it: each moment's job is added once, by
 * whoever comes first. A job that was missed is not made up for, since the next one does the whole
 * of it; its key keeps those that nobody took from piling up.
 */
const ITEMS: CronItem[] = [
  // The newest replaces the one that runs, so that a projector that hangs is replaced too.
  { task: 'project', match: '* * * * *' },
  // These add themselves more often than that; here in case that one was lost.
  ...REPEATED.map((task) => ({ task, match: '* * * * *' })),
  { task: 'watch_service', match: '* * * * *' },
  // Not on the hour, when others do what they do by the hour.
  { task: 'retain', match: '17 * * * *' },
  { task: 'drop_allowances', match: '*/5 * * * *' },
  { task: 'make_partitions', match: '*/10 * * * *' },
  { task: 'archive', match: '37 * * * *' },
];

/** Defaults for all of them: no second attempt, because the next minute brings a fresh one. */
export const CRONTAB: ParsedCronItem[] = parseCronItems(
  ITEMS.map((item) => ({
    ...item,
    options: { backfillPeriod: 0, maxAttempts: 1, jobKey: item.task, ...item.options },
  })),
);
