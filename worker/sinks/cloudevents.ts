import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { postBatch } from './post-batch.ts';
import type { Sink, SinkContext } from './sink.ts';

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
  return {
    batchMax: BATCH_MAX,
    deliver: (batch, signal) => {
      const body = JSON.stringify(batch.map((event) => cloudEventOf(event, source, event_type)));
      return postBatch(batch.length, { url, headers, body, allowPrivate: allow_private, signal });
    },
    close: () => Promise.resolve(),
  };
}

function cloudEventOf(event: SpendEvent, source: string, type = `daybook.${event.type}`): object {
  const { object: _, id, at, account, ...data } = event;
  return {
    specversion: '1.0',
    id,
    source,
    type,
    subject: account,
    time: at,
    datacontenttype: 'application/json',
    data: { account, ...data },
  };
}
