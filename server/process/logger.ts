import { type Logger, pino } from 'pino';

export type { Logger };

/**
 * The diagnostic log, on standard output as JSON lines. Only named fields of known shape are ever passed to
 * it: never a header, a body, a URL with its query, or text from an upstream.
 */
export function createLogger(level: string): Logger {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  });
}

/** The fields of an error that are safe to log: its class and code. Messages may contain secrets. */
export function errorFields(error: unknown): { error: string; code?: string } {
  if (!(error instanceof Error)) return { error: typeof error };
  const code = (error as NodeJS.ErrnoException).code;
  return typeof code === 'string' ? { error: error.name, code } : { error: error.name };
}
