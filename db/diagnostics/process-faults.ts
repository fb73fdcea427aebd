import type { Logger } from 'pino';
import { errorFields, faultFields } from '#db/diagnostics/error-fields.ts';
import { exitProcess } from '#db/diagnostics/process-output.ts';

/** Codes of errors of one connection or stream. */
const STREAM_ERRORS = new Set([
  'EPIPE',
  'ECONNRESET',
  'ECONNABORTED',
  'ETIMEDOUT',
  'ENOTCONN',
  'EIO',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
  'ERR_STREAM_PREMATURE_CLOSE',
]);

/**
 * What a fault that no code expects means for a server or worker.
 *
 * - An error event of a connection or stream that has no listener concerns that stream only, which is closed
 *   by
 *   then: it is logged, and the process continues.
 * - Anything else that is thrown or rejected without a handler has stopped a part of the program that nothing
 *   restarts: it is logged and the process exits with code 1, so that its supervisor starts it again.
 * - Warnings of Node are logged.
 */
export function watchProcessFaults(log: Logger): void {
  process.on('uncaughtException', (error, origin) => {
    if (isStreamError(error, origin))
      return log.error(faultFields(error), 'connection error without a handler');
    log.fatal(
      faultFields(error),
      origin === 'unhandledRejection' ? 'unhandled rejection; exiting' : 'uncaught exception; exiting',
    );
    void exitProcess(1);
  });
  // What a library prints there may be lost.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  // Node's own listener writes to standard error.
  process.removeAllListeners('warning');
  process.on('warning', (warning) => log.warn(errorFields(warning), 'node warning'));
}

/**
 * Whether an error was emitted by a stream. A rejection doesn't say which part of the program has stopped.
 */
export function isStreamError(error: unknown, origin: NodeJS.UncaughtExceptionOrigin): boolean {
  if (origin === 'unhandledRejection' || !(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  return (
    code !== undefined && STREAM_ERRORS.has(code) && (syscall !== undefined || code.startsWith('ERR_STREAM'))
  );
}
