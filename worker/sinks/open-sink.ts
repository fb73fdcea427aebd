import type { SinkConfig } from '#db/spend/sink-config.ts';
import type { Sink, SinkContext } from './sink.ts';
import { openCloudEvents } from './cloudevents.ts';
import { openKafka } from './kafka.ts';
import { openLago } from './lago.ts';
import { openStripe } from './stripe.ts';
import { openWebhook } from './webhook.ts';

/** The client of a configured sink. It connects with its first delivery. */
export function openSink(config: SinkConfig, context: SinkContext): Sink {
  switch (config.kind) {
    case 'webhook':
      return openWebhook(config, context);
    case 'cloudevents':
      return openCloudEvents(config, context);
    case 'lago':
      return openLago(config, context);
    case 'stripe':
      return openStripe(config, context);
    case 'kafka':
      return openKafka(config, context);
  }
}
