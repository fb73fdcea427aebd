import { signedHeaders } from '#db/alerts/webhooks.ts';
import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { postBatch } from './post-batch.ts';
import type { Delivered, Sink, SinkContext } from './sink.ts';

const BATCH_MAX = 500;

/**
 * Signed batches per Standard Webhooks: `{"type": "spend_events", "timestamp", "data": [event, …]}`. A test
 * is of type `spend_events.test` and has no events. The `webhook-id` names the sink and the first and last
 * event, so that an unchanged batch keeps it.
 */
export function openWebhook(
  { url, secret, allow_private }: SinkConfigOf<'webhook'>,
  { id }: SinkContext,
): Sink {
  const post = (count: number, message: string, body: string, signal: AbortSignal): Promise<Delivered> => {
    const nowS = Math.floor(Date.now() / 1_000);
    const headers = { 'content-type': 'application/json', ...signedHeaders(secret, message, nowS, body) };
    return postBatch(count, { url, headers, body, allowPrivate: allow_private, signal });
  };
  return {
    batchMax: BATCH_MAX,
    deliver: (batch, signal) =>
      post(batch.length, `${id}_${batch[0]?.id}_${batch.at(-1)?.id}`, webhookBody(batch), signal),
    test: async (event, signal) => {
      const timestamp = new Date().toISOString();
      const body = JSON.stringify({ type: 'spend_events.test', timestamp, data: [] });
      return (await post(1, `${id}_${event}`, body, signal)).fault;
    },
    close: () => Promise.resolve(),
  };
}

/** The same for each attempt: the timestamp is that of the newest event. */
const webhookBody = (batch: readonly SpendEvent[]): string =>
  JSON.stringify({ type: 'spend_events', timestamp: batch.at(-1)?.at, data: batch });
