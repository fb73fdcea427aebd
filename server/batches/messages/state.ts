import { parseObject } from '#server/batches/description.ts';
import type { BatchState } from '#server/batches/judge-batch.ts';
import { asRecord } from '#server/wire/counts.ts';

/** What Anthropic says of a batch. Each of its requests has a result once it has ended. Pure. */
export function readMessageBatchState(bytes: Buffer): BatchState | null {
  const object = parseObject(bytes);
  if (object === null || typeof object['processing_status'] !== 'string') return null;
  const succeeded = asRecord(object['request_counts'])?.['succeeded'];
  return {
    ended: object['processing_status'] === 'ended' ? 'completed' : null,
    output: null,
    error: null,
    completed: typeof succeeded === 'number' ? succeeded : null,
    object,
  };
}

/** A description with the address of its results at the relay, whatever the provider's is. */
export function withOwnResults(object: Record<string, unknown>, origin: string): Record<string, unknown> {
  if (typeof object['results_url'] !== 'string') return object;
  const id = encodeURIComponent(String(object['id']));
  return { ...object, results_url: `${origin}/v1/messages/batches/${id}/results` };
}
