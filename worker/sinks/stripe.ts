import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { http } from '#db/node-http.ts';
import { meteredValue } from './metered-figures.ts';
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
  async function report(body: string | null, signal: AbortSignal): Promise<string | null> {
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
        const faults = await Promise.all(
          part.map((event) => report(meterEventOf(event, config, source), signal)),
        );
        const failed = faults.findIndex((fault) => fault !== null);
        if (failed >= 0)
          return { acknowledged: acknowledged + failed, fault: faults[failed] ?? null } satisfies Delivered;
        acknowledged += part.length;
      }
      return { acknowledged, fault: null };
    },
    test: (id, signal) => {
      const [customer] = Object.values(config.customers);
      return customer === undefined
        ? Promise.resolve('no_customer')
        : report(meterEvent(config.event_name, `${source}/${id}`, new Date(), customer, 0), signal);
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
  return meterEvent(event_name, `${source}/${event.id}`, new Date(event.at), customer, amount);
}

function meterEvent(name: string, identifier: string, at: Date, customer: string, value: number): string {
  return new URLSearchParams({
    event_name: name,
    identifier,
    timestamp: String(Math.floor(at.getTime() / 1_000)),
    'payload[stripe_customer_id]': customer,
    'payload[value]': String(value),
  }).toString();
}
