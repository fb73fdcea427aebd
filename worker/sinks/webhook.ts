import { signedHeaders } from '#db/alerts/webhooks.ts';
import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { postBatch } from './post-batch.ts';
import type { Sink, SinkContext } from './sink.ts';

const BATCH_MAX = 500;

/**
 * Signed batches per Standard Webhooks: `{"type": "spend_events", "timestamp", "data": [event, …]}`. The
 * `webhook-id` names the sink and the first and last event, so that an unchanged batch keeps it.
 */
export function openWebhook(
  { url, secret, allow_private }: SinkConfigOf<'webhook'>,
  { id }: SinkContext,
): Sink {
  return {
    batchMax: BATCH_MAX,
    deliver: (batch, signal) => {
      const nowS = Math.floor(Date.now() / 1_000);
      const body = webhookBody(batch);
      const headers = {
        'content-type': 'application/json',
        ...signedHeaders(secret, `${id}_${batch[0]?.id}_${batch.at(-1)?.id}`, nowS, body),
      };
      return postBatch(batch.length, { url, headers, body, allowPrivate: allow_private, signal });
    },
    close: () => Promise.resolve(),
  };
}

/** The same for each attempt: the timestamp is that of the newest event. */
const webhookBody = (batch: readonly SpendEvent[]): string =>
  JSON.stringify({ type: 'spend_events', timestamp: batch.at(-1)?.at, data: batch });
