import { type Logger, pino } from 'pino';
import type { DroppableOutput } from '#db/diagnostics/droppable-output.ts';
import { standardOutput } from '#db/diagnostics/process-output.ts';

export type { Logger };

/**
 * The diagnostic log of a process, on standard output as JSON lines. Lines are dropped rather than waited
 * for. Only named fields of known shape are passed to it: never a header, a body, a URL with its query, or
 * text from an upstream.
 * @param base fields of every line.
 */
export function createLogger(
  level: string,
  base: Record<string, string> | null = null,
  output: DroppableOutput = standardOutput,
): Logger {
  output.describeDropped = (dropped, reason) =>
    `${JSON.stringify({
      level: 'warn',
      time: new Date().toISOString(),
      ...base,
      dropped,
      reason,
      msg: 'diagnostic lines dropped',
    })}\n`;
  return pino(
    {
      level,
      base,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    output,
  );
}
