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

/** What may be said of an error in a log line: its class and code. Messages may hold secrets. */
export function errorFields(error: unknown): { error: string; code?: string } {
  if (!(error instanceof Error)) return { error: typeof error };
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === 'string' ? { error: error.name, code } : { error: error.name };
}

/**
 * What the queue has to say. Its words quote errors as they are, so they are shown only to those
 * who look for a fault; that there is one is told always.
 */
export function queueLogger(log: Logger): Queue {
  return new QueueLogger(() => (level, message) => {
    if (level === 'error' || level === 'warning')
      log.warn('the job queue has met a fault; the level "debug" shows its words');
    log.debug({ queue: message });
  });
}
