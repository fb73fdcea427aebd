import { type Logger, pino } from 'pino';

export type { Logger };

/**
 * The diagnostic log, on standard output as JSON lines. Only named fields of known shape are ever
 * passed to it: never a header, a body, a URL with its query, or an upstream's own words.
 */
export function createLogger(level: string): Logger {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  });
}

/** What may be said of an error in a log line: its class and code. Messages may hold secrets. */
export function errorFields(error: unknown): { error: string; code?: string } {
  if (!(error instanceof Error)) return { error: typeof error };
  const code = (error as NodeJS.ErrnoException).code;
  return typeof code === 'string' ? { error: error.name, code } : { error: error.name };
}
