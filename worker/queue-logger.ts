import { type Logger as Queue, Logger as QueueLogger } from 'graphile-worker';
import { errorFields, scrub } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

/** What the queue passes with a message. */
type Meta = {
  error?: unknown;
  /** Set for a job that failed. */
  failure?: boolean;
  /** Set for its warning at each start that the pool has fewer connections than there may be jobs. */
  concurrency?: number;
};

/** The queue's own log: its errors with their reason. Failed jobs are logged by `job-status.ts`. */
export function queueLogger(log: Logger): Queue {
  return new QueueLogger(() => (level, message, meta: Meta) => {
    const reason = meta.error === undefined ? { reason: scrub(message) } : errorFields(meta.error);
    const isError = level === 'error' || level === 'warning';
    const isIntended = meta.failure === true || meta.concurrency !== undefined;
    if (isError && !isIntended) log.warn(reason, 'job queue error');
    else log.debug({ reason: scrub(message) }, 'job queue message');
  });
}
