import { parseObject } from '#server/batches/description.ts';
import {
  AFTER_WINDOW_MS,
  FOLLOW_EVERY_MAX_MS,
  FOLLOW_EVERY_MIN_MS,
  UNKNOWN_BATCH_IS_LOST_MS,
} from '#server/batches/bounds.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { asRecord } from '#server/wire/counts.ts';

/** Decides how a batch stands. Pure. */

export const ENDED_STATES = ['completed', 'failed', 'expired', 'cancelled'] as const;
export type EndedState = (typeof ENDED_STATES)[number];

/** What a provider says of a batch. */
export type BatchState = {
  /** Null: it is in progress. */
  ended: EndedState | null;
  output: string | null;
  error: string | null;
  /** Lines that have a reply; null: it doesn't say. */
  completed: number | null;
  /** The whole description. */
  object: Record<string, unknown>;
};

export type BatchVerdict =
  | { kind: 'running'; nextMs: number }
  | { kind: 'ended'; state: BatchState & { ended: EndedState } }
  /** The usage of its lines will never be known. */
  | { kind: 'lost' };

/** @param bytes of a provider's reply, without credentials. @returns null: it describes no batch. */
export function readBatchState(bytes: Buffer): BatchState | null {
  const object = parseObject(bytes);
  if (object === null || typeof object['status'] !== 'string') return null;
  const { status, output_file_id: output, error_file_id: error, request_counts: counts } = object;
  const completed = asRecord(counts)?.['completed'];
  return {
    ended: ENDED_STATES.find((each) => each === status) ?? null,
    output: isStoredId(output) ? output : null,
    error: isStoredId(error) ? error : null,
    completed: typeof completed === 'number' ? completed : null,
    object,
  };
}

/**
 * @param polled the status and the state of the provider's reply; null: there was none.
 * @param ageMs since the batch was created.
 * @param windowMs how long its provider may take.
 */
export function judgeBatch(
  polled: { status: number; state: BatchState | null } | null,
  ageMs: number,
  windowMs: number,
): BatchVerdict {
  const state = polled?.status === 200 ? polled.state : null;
  const { ended = null } = state ?? {};
  if (state !== null && ended !== null) return { kind: 'ended', state: { ...state, ended } };
  const isUnknown = polled?.status === 404 && ageMs >= UNKNOWN_BATCH_IS_LOST_MS;
  if (isUnknown || ageMs >= windowMs + AFTER_WINDOW_MS) return { kind: 'lost' };
  return { kind: 'running', nextMs: followAfterMs(ageMs) };
}

/** When a provider is asked again. */
export const followAfterMs = (ageMs: number): number =>
  Math.min(Math.max(ageMs / 10, FOLLOW_EVERY_MIN_MS), FOLLOW_EVERY_MAX_MS);
