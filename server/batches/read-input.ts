import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  BATCH_LINES_MAX,
  FILE_BYTES_MAX,
  INPUT_LINE_BYTES_MAX,
  LINE_MEMORY_BYTES,
  LINES_PER_TURN,
  TRANSFER_IDLE_MS,
} from '#server/batches/bounds.ts';
import { IdleTimeout } from '#server/batches/idle-timeout.ts';
import type { BatchPlan } from '#server/batches/plan-line.ts';
import { fileTooLarge, lineTooLong } from '#server/batches/upload-form.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import { failureOf, readErrorReply } from '#server/stored/exchange.ts';
import type { Stored } from '#server/stored/serve.ts';
import { LineSplitter, LineTooLong } from '#server/wire/line-splitter.ts';

/**
 * Reads the input file of a batch at its upstream, line by line, and plans each. The lines of the upstream
 * itself are authorized and reserved: a file can't be changed.
 * @param signal ends it when the client has disconnected.
 */
export async function readInput(
  { name, upstream, pool }: Stored,
  plan: BatchPlan,
  open: Pick<OpenCall, 'holdBody'>,
  signal: AbortSignal,
): Promise<ApiError | null> {
  using idle = new IdleTimeout(TRANSFER_IDLE_MS);
  const splitter = new LineSplitter(INPUT_LINE_BYTES_MAX);
  let number = 0;
  const add = (line: Buffer): ApiError | null => {
    number++;
    if (isBlank(line)) return null;
    if (plan.lines.length >= BATCH_LINES_MAX) return tooManyLines();
    return plan.add(line, number) ?? open.holdBody(plan.lines.length * LINE_MEMORY_BYTES);
  };
  try {
    const path = `/files/${encodeURIComponent(name.id)}/content`;
    const asked = { method: 'GET', path, accept: '*/*' } as const;
    const reply = await pool.exchange({ ...asked, signal: AbortSignal.any([signal, idle.signal]) });
    if (reply.status !== 200) return await readErrorReply(reply, upstream, open);
    let bytes = 0;
    for await (const chunk of reply.body) {
      idle.touch();
      bytes += chunk.length;
      if (bytes > FILE_BYTES_MAX) return fileTooLarge();
      for (const line of splitter.push(chunk)) {
        const refusal = add(line);
        if (refusal) return refusal;
        if (number % LINES_PER_TURN === 0) await nextTurn();
      }
    }
    const refusal = add(splitter.end());
    if (refusal) return refusal;
    return plan.lines.length === 0 ? EMPTY : null;
  } catch (error) {
    if (error instanceof LineTooLong) return lineTooLong(number + 1);
    return failureOf(error);
  }
}

const isBlank = (line: Buffer): boolean => line.length < 8 && line.toString('latin1').trim() === '';

const EMPTY = new ApiError('invalid_value', {
  message: 'The file has no lines. Upload one with a request in each line.',
  param: 'input_file_id',
});

const tooManyLines = (): ApiError =>
  new ApiError('request_too_large', {
    message: `The file has more than ${BATCH_LINES_MAX} lines. Split it into several batches.`,
    param: 'input_file_id',
  });
