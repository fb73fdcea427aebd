import type { METERED_FIGURES, SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { http } from '#db/node-http.ts';
import { faultOf, isSuccess, send } from './post-batch.ts';
import type { Delivered, Sink, SinkContext } from './sink.ts';

/** One request for each event, so few that all of them end within the time of a delivery. */
const BATCH_MAX = 40;
/** Stripe allows 1,000 a second in live mode; one account may have other integrations. */
const CONCURRENT_MAX = 8;
/** An error message of Stripe is far shorter. */
const REPLY_BYTES_MAX = 16_384;
/** The refusal of an event that Stripe has already. It has no code of its own. */
const DUPLICATE = 'already exists with identifier';

/**
 * Stripe meter events (`POST /v1/billing/meter_events`), identified by the id of the spend event: for 24
 * hours or more Stripe refuses a second event with it, which acknowledges the first. Negative values of
 * corrections are sent as they are: the meter must sum.
 */
export function openStripe(config: SinkConfigOf<'stripe'>, { source }: SinkContext): Sink {
  const url = new URL('/v1/billing/meter_events', config.url).href;
  const headers = {
    authorization: `Bearer ${config.api_key}`,
    'content-type': 'application/x-www-form-urlencoded',
  };

  // A handshake for each event would take longer than the event. Only this sink's requests share it.
  const { Agent } = url.startsWith('https:') ? process.getBuiltinModule('node:https') : http;
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENT_MAX });

  /** @returns the fault; null: Stripe has the event, or is not to have it. */
  async function report(event: SpendEvent, signal: AbortSignal): Promise<string | null> {
    const body = meterEventOf(event, config, source);
    if (body === null) return null;
    const reply = await send({
      ...{ url, headers, body, signal, agent },
      allowPrivate: config.allow_private,
      replyBytesMax: REPLY_BYTES_MAX,
    });
    if (isSuccess(reply)) return null;
    return 'status' in reply && reply.status === 400 && reply.body.includes(DUPLICATE)
      ? null
      : faultOf(reply);
  }

  return {
    batchMax: BATCH_MAX,
    deliver: async (batch, signal) => {
      let acknowledged = 0;
      while (acknowledged < batch.length) {
        const part = batch.slice(acknowledged, acknowledged + CONCURRENT_MAX);
        const faults = await Promise.all(part.map((event) => report(event, signal)));
        const failed = faults.findIndex((fault) => fault !== null);
        if (failed >= 0)
          return { acknowledged: acknowledged + failed, fault: faults[failed] ?? null } satisfies Delivered;
        acknowledged += part.length;
      }
      return { acknowledged, fault: null };
    },
    close: () => Promise.resolve(agent.destroy()),
  };
}

/** @returns null for an event that has nothing to meter, or whose account has no customer. */
function meterEventOf(
  event: SpendEvent,
  { event_name, value, customers }: Pick<SinkConfigOf<'stripe'>, 'event_name' | 'value' | 'customers'>,
  source: string,
): string | null {
  const customer = customers[event.account];
  const amount = meteredValue(event, value);
  if (customer === undefined || amount === 0) return null;
  return new URLSearchParams({
    event_name,
    identifier: `${source}/${event.id}`,
    timestamp: String(Math.floor(Date.parse(event.at) / 1_000)),
    'payload[stripe_customer_id]': customer,
    'payload[value]': String(amount),
  }).toString();
}

function meteredValue(event: SpendEvent, value: (typeof METERED_FIGURES)[number]): number {
  switch (value) {
    case 'requests':
      return event.type === 'request.settled' || event.type === 'request.abandoned' ? 1 : 0;
    case 'cost_nanousd':
      return event.cost_nanousd ?? 0;
    case 'tokens':
      return (event.input_tokens ?? 0) + (event.output_tokens ?? 0) + (event.hold_tokens ?? 0);
    case 'input_tokens':
      return event.input_tokens ?? 0;
    case 'output_tokens':
      return event.output_tokens ?? 0;
  }
}
