import { type Logger as Queue, Logger as QueueLogger } from 'graphile-worker';
import { type Logger, pino } from 'pino';

export type { Logger };

/** The diagnostic log, on standard output as JSON lines. Only named fields of known shape go there. */
export function createLogger(level: string): Logger {
  return pino({
    level,
    base: { process: 'worker' },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  });
}

/** The fields of an error in a log line: its class and code. Messages may contain secrets. */
export function errorFields(error: unknown): { error: string; code?: string } {
  if (!(error instanceof Error)) return { error: typeof error };
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === 'string' ? { error: error.name, code } : { error: error.name };
}

/**
 * The queue's own log. Its messages quote errors, which may contain secrets, so they appear at the
 * level `debug` only; that an error occurred is always logged.
 */
export function queueLogger(log: Logger): Queue {
  return new QueueLogger(() => (level, message) => {
    if (level === 'error' || level === 'warning')
      log.warn('job queue error; set LOG_LEVEL=debug for its message');
    log.debug({ queue: message });
  });
}
