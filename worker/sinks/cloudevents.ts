import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { postBatch } from './post-batch.ts';
import type { Delivered, Sink, SinkContext } from './sink.ts';

/** Usage-billing systems accept as many in one request by default. */
const BATCH_MAX = 100;

/**
 * CloudEvents 1.0 in the JSON batch format. The subject is the account, which billing systems map to a
 * customer; source and id together identify the event.
 */
export function openCloudEvents(
  { url, token, event_type, allow_private }: SinkConfigOf<'cloudevents'>,
  { source }: SinkContext,
): Sink {
  const headers = {
    'content-type': 'application/cloudevents-batch+json; charset=utf-8',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  const post = (events: readonly object[], signal: AbortSignal): Promise<Delivered> => {
    const body = JSON.stringify(events);
    return postBatch(events.length, { url, headers, body, allowPrivate: allow_private, signal });
  };
  return {
    batchMax: BATCH_MAX,
    deliver: (batch, signal) =>
      post(
        batch.map((event) => cloudEventOf(event, source, event_type)),
        signal,
      ),
    test: async (id, signal) => {
      const time = new Date().toISOString();
      const event = { ...ENVELOPE, id, source, type: 'daybook.test', subject: 'test', time, data: {} };
      return (await post([event], signal)).fault;
    },
    close: () => Promise.resolve(),
  };
}

const ENVELOPE = { specversion: '1.0', datacontenttype: 'application/json' } as const;

function cloudEventOf(event: SpendEvent, source: string, type = `daybook.${event.type}`): object {
  const { object: _, id, at, account, ...data } = event;
  return { ...ENVELOPE, id, source, type, subject: account, time: at, data: { account, ...data } };
}
