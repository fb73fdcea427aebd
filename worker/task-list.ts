import type { JobHelpers, TaskList } from 'graphile-worker';
import type { Client, ClientBase } from 'pg';
import { ARCHIVE_STATEMENT_TIMEOUT_MS, RECOVERY_TIMEOUT_MS } from '#db/bounds.ts';
import { unsealTarget } from '#db/alerts/destinations.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { dropEnded } from '#db/limits/leases.ts';
import { makePartitions, PARTITIONS_TIMEOUT_MS } from '#db/log/partitions.ts';
import { makeRequestPartitions, partitionDays } from '#db/projections/request-partitions.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import type { WorkerConfig } from '#db/configuration/worker-config.ts';
import type { WorkerInstance } from './instance.ts';
import type { RepeatedTask } from './repeat.ts';
import { appendReadings } from './tasks/append-readings.ts';
import { archiveTask } from './tasks/archive.ts';
import { deliverAlert } from './tasks/deliver-alert.ts';
import { EMAIL_QUERY_TIMEOUT_MS, emailStatements } from './tasks/email-statements.ts';
import { expireKeys } from './tasks/expire-keys.ts';
import { PROJECT_TIMEOUT_MS, projectTask } from './tasks/project.ts';
import { PUBLISH_TIMEOUT_MS, publishTask } from './tasks/publish-checkpoint.ts';
import { queueRebuilds, REBUILD_TIMEOUT_MS, rebuildProjectionTask } from './tasks/rebuild-projection.ts';
import { recoverInstanceTask } from './tasks/recover-instance.ts';
import { retentionsOf, retain, RETAIN_TIMEOUT_MS } from './tasks/retain.ts';
import { watchBudgets } from './tasks/watch-budgets.ts';
import { watchQuotas } from './tasks/watch-quotas.ts';
import { watchJobs } from './tasks/watch-jobs.ts';
import { watchKeys, watchProjections, watchUpstreams, watchUsageReports } from './tasks/watch-service.ts';
import { watchSinks } from './tasks/watch-sinks.ts';
import { watchUsage } from './tasks/watch-usage.ts';
import type { JobReports } from './job-status.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import type { MailServer } from './mail.ts';
import { openSealed } from './sealed-target.ts';

/** The dependencies of the tasks. Each task receives only those that it needs. */
export type Work = {
  config: WorkerConfig;
  log: Logger;
  /** The instance that this process appends as. */
  instance: WorkerInstance;
  /** Opens a connection as the worker, which the task closes. The timeout is short unless one is given. */
  connect: (timeoutMs?: number) => Promise<Client>;
  /** The same as the owner, who alone may detach a partition of the log. */
  connectOwner: (timeoutMs: number) => Promise<Client>;
};

/** The only job that never ends by itself: a newer one supersedes it, see `tasks/project.ts`. */
export const PROJECT_JOB = ['project', {}, { jobKey: 'project' }] as const;

/**
 * The tasks by name. `crontab.ts` schedules some of them.
 * @param reports where each end of a task is reported.
 * @param signal aborts long tasks when their queue ends.
 */
export function taskList(work: Work, reports: JobReports, signal: AbortSignal): TaskList {
  return { ...reportedTasks(work, reports, signal), ...selfReportingTasks(work, reports, signal) };
}

type Task = (payload: unknown, helpers: JobHelpers) => Promise<void>;

/** Tasks that end otherwise than by a return or an error, and report that themselves. */
function selfReportingTasks(
  { log, connect }: Work,
  reports: JobReports,
  signal: AbortSignal,
): Record<string, Task> {
  return {
    project: async (_payload, helpers) => {
      const end = await projectTask({
        projections: PROJECTIONS,
        connect: () => connect(PROJECT_TIMEOUT_MS),
        signal,
        log,
        reports,
        onOutdated: (names) => helpers.withPgClient((client) => queueRebuilds(client, names)),
      });
      // For another worker, which otherwise would begin with the next minute.
      if (end === 'stopped') await helpers.addJob(...PROJECT_JOB);
    },
  };
}

/** The tasks that look every few seconds whether there is work. @param look over a shared connection. */
export function repeatedTasks(
  { config, log, instance, connect }: Work,
  look: <T>(work: (client: ClientBase) => Promise<T>) => Promise<T>,
): Record<string, RepeatedTask> {
  const { session } = instance;
  return {
    expire_keys: () =>
      look((client) =>
        expireKeys(client, { instance: session.instance, nextBatchNo: () => session.nextBatchNo() }),
      ),
    publish_checkpoint: () =>
      publishTask({ config, log, session, look, connect: () => connect(PUBLISH_TIMEOUT_MS) }),
    watch_quotas: () => look(watchQuotas),
  };
}

/** Tasks whose promise is their end. */
function reportedTasks(
  { config, log, instance, connect, connectOwner }: Work,
  reports: JobReports,
  signal: AbortSignal,
): Record<string, Task> {
  const tasks: Record<string, Task> = {
    rebuild_projection: (payload) =>
      rebuildProjectionTask(payload, {
        projections: PROJECTIONS,
        connect: () => connect(REBUILD_TIMEOUT_MS),
        signal,
        log,
      }),
    recover_instance: (payload) =>
      recoverInstanceTask(payload, {
        connect: () => connect(RECOVERY_TIMEOUT_MS),
        instance: () => instance.session.instance,
        onRecovered: (dead, abandoned) => instance.noteRecovered(dead, abandoned),
      }),
    watch_projections: (_payload, helpers) => helpers.withPgClient(watchProjections),
    watch_upstreams: (_payload, helpers) => helpers.withPgClient(watchUpstreams),
    watch_usage_reports: (_payload, helpers) => helpers.withPgClient(watchUsageReports),
    watch_keys: (_payload, helpers) => helpers.withPgClient(watchKeys),
    watch_jobs: (_payload, helpers) => helpers.withPgClient(watchJobs),
    watch_sinks: (_payload, helpers) => helpers.withPgClient(watchSinks),
    watch_usage: (_payload, helpers) => helpers.withPgClient(watchUsage),
    watch_budgets: (_payload, helpers) => helpers.withPgClient(watchBudgets),
    retain: () =>
      overConnection(connect(RETAIN_TIMEOUT_MS), (client) =>
        retain(client, retentionsOf(config.REQUEST_ROWS_DAYS), signal),
      ),
    drop_allowances: () => overConnection(connect(RETAIN_TIMEOUT_MS), (client) => dropEnded(client)),
    append_readings: (_payload, helpers) => helpers.withPgClient(appendReadings),
    make_partitions: () =>
      overConnection(connect(PARTITIONS_TIMEOUT_MS), async (client) => {
        await makePartitions(client);
        await makeRequestPartitions(client, { days: partitionDays(config.REQUEST_ROWS_DAYS) });
      }),
    archive: () =>
      archiveTask({ config, log, signal, connect: () => connectOwner(ARCHIVE_STATEMENT_TIMEOUT_MS) }),
    email_statements: (_payload, helpers) =>
      overConnection(connect(EMAIL_QUERY_TIMEOUT_MS), (client) =>
        emailStatements({
          client,
          log,
          mailServer: mailServerOf(config),
          publicUrl: config.PUBLIC_URL ?? null,
          signal: helpers.abortSignal,
        }),
      ),
    deliver_alert: (payload, helpers) =>
      deliverAlert(payload, {
        query: (text, values) => helpers.withPgClient((client) => client.query(text, values)),
        // Aborted later than `signal`, so that a receiver may still respond.
        signal: helpers.abortSignal,
        open: (destination, sealed) =>
          openSealed(config, log, { destination }, (pepper) => unsealTarget(pepper, destination, sealed)),
        publicUrl: config.PUBLIC_URL ?? null,
        mailServer: mailServerOf(config),
        onSwitchedOff: (destination) =>
          log.error(
            { destination },
            'alert destination disabled after a day of failures, or gone; `destination test` enables it',
          ),
      }),
  };
  return Object.fromEntries(
    Object.entries(tasks).map(([name, task]) => [
      name,
      (payload: unknown, helpers: JobHelpers) => reports.run(name, () => task(payload, helpers)),
    ]),
  );
}

const mailServerOf = ({ SMTP_URL: url, SMTP_FROM: from }: WorkerConfig): MailServer | null =>
  url === undefined || from === undefined ? null : { url, from };

/** Runs work over a connection of its own, and closes it. */
async function overConnection(
  connected: Promise<Client>,
  work: (client: Client) => Promise<unknown>,
): Promise<void> {
  const client = await connected;
  try {
    await work(client);
  } finally {
    await closeClient(client);
  }
}
