import { z } from 'zod';
import { METERED_FIGURES, type SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { meteredValue } from './metered-figures.ts';
import { faultOf, isSuccess, send } from './post-batch.ts';
import type { Delivered, Sink, SinkContext } from './sink.ts';

/** Lago accepts as many events in one request. */
const BATCH_MAX = 100;
/** A refusal names the errors of each event. */
const REPLY_BYTES_MAX = 65_536;
/** A metric that no plan has: Lago ignores events of unknown metrics. */
const TEST_CODE = 'daybook_test';
const NANOUSD_PER_CENT = 10_000_000n;

/**
 * Usage events of Lago (`POST /api/v1/events/batch`), identified by `transaction_id`: log and id of the spend
 * event. Lago saves all events of a batch or none. It refuses a batch of which it has events already with 422
 * `value_already_exist` at these, which acknowledges them; the others are sent once more.
 */
export function openLago(config: SinkConfigOf<'lago'>, { source }: SinkContext): Sink {
  const url = new URL('/api/v1/events/batch', config.url).href;
  const headers = { authorization: `Bearer ${config.api_key}`, 'content-type': 'application/json' };
  const post = (events: readonly LagoEvent[], signal: AbortSignal) =>
    send({
      ...{ url, headers, signal, body: JSON.stringify({ events }) },
      allowPrivate: config.allow_private,
      replyBytesMax: REPLY_BYTES_MAX,
    });

  async function deliver(batch: readonly SpendEvent[], signal: AbortSignal): Promise<Delivered> {
    const events = batch.map((event) => lagoEventOf(event, config, source));
    // Events that Lago has, or is not to have.
    const done = new Set(events.flatMap((event, index) => (event === null ? [index] : [])));
    for (;;) {
      const left = events.flatMap((event, index) => (event === null || done.has(index) ? [] : [index]));
      if (left.length === 0) return { acknowledged: batch.length, fault: null };
      const reply = await post(
        left.flatMap((index) => events[index] ?? []),
        signal,
      );
      if (isSuccess(reply)) return { acknowledged: batch.length, fault: null };
      const known = 'status' in reply && reply.status === 422 ? knownEvents(reply.body) : [];
      for (const index of known) done.add(left[index] ?? -1);
      if (known.length === 0) return { acknowledged: prefixOf(done), fault: faultOf(reply) };
    }
  }

  return {
    batchMax: BATCH_MAX,
    deliver,
    test: async (id, signal) => {
      const [account = 'test'] = Object.values(config.subscriptions ?? {});
      const timestamp = secondsOf(new Date().toISOString());
      const event = { transaction_id: `${source}/${id}`, external_subscription_id: account };
      const reply = await post([{ ...event, code: TEST_CODE, timestamp, properties: {} }], signal);
      return isSuccess(reply) ? null : faultOf(reply);
    },
    close: () => Promise.resolve(),
  };
}

/** How many events from the beginning are done. */
function prefixOf(done: ReadonlySet<number>): number {
  let count = 0;
  while (done.has(count)) count++;
  return count;
}

type LagoEvent = {
  transaction_id: string;
  external_subscription_id: string;
  code: string;
  /** Seconds since 1970, with the milliseconds as decimals. */
  timestamp: string;
  precise_total_amount_cents?: string;
  properties: Record<string, string | number>;
};

/** @returns null for an event that has nothing to meter, or whose account has no subscription. */
function lagoEventOf(
  event: SpendEvent,
  { code, subscriptions }: Pick<SinkConfigOf<'lago'>, 'code' | 'subscriptions'>,
  source: string,
): LagoEvent | null {
  const subscription = subscriptions === undefined ? event.account : subscriptions[event.account];
  const figures = METERED_FIGURES.map((figure) => [figure, meteredValue(event, figure)] as const);
  if (subscription === undefined || figures.every(([, value]) => value === 0)) return null;
  return {
    transaction_id: `${source}/${event.id}`,
    external_subscription_id: subscription,
    code,
    timestamp: secondsOf(event.at),
    precise_total_amount_cents: centsOf(event.cost_nanousd ?? 0),
    // A metric that sums a property needs it in each event.
    properties: { ...propertiesOf(event), ...Object.fromEntries(figures) },
  };
}

/** Lago's properties are texts and numbers. */
function propertiesOf({ object: _object, id: _id, at: _at, ...event }: SpendEvent): LagoEvent['properties'] {
  return Object.fromEntries(
    Object.entries(event).flatMap(([name, value]) => {
      if (typeof value === 'string' || typeof value === 'number') return [[name, value]];
      if (typeof value === 'boolean') return [[name, String(value)]];
      return Array.isArray(value) ? [[name, value.join(',')]] : [];
    }),
  );
}

const secondsOf = (at: string): string => (Date.parse(at) / 1_000).toFixed(3);

/** Nano-dollars as cents, to the last digit. */
function centsOf(nanousd: number): string {
  const [sign, size] = nanousd < 0 ? ['-', BigInt(-nanousd)] : ['', BigInt(nanousd)];
  const rest = String(size % NANOUSD_PER_CENT).padStart(7, '0');
  return `${sign}${size / NANOUSD_PER_CENT}.${rest}`.replace(/\.?0+$/, '') || '0';
}

const Refusal = z.object({
  error_details: z.record(z.string().regex(/^\d{1,3}$/), z.record(z.string(), z.array(z.string()))),
});

/** The indexes of events that Lago has already. @returns none where events have other errors, too. */
function knownEvents(body: string): number[] {
  const parsed = Refusal.safeParse(parseJson(body));
  if (!parsed.success) return [];
  const details = Object.entries(parsed.data.error_details);
  const areKnown = details.every(
    ([, { transaction_id: errors, ...others }]) =>
      errors?.every((error) => error === 'value_already_exist') === true && Object.keys(others).length === 0,
  );
  return areKnown ? details.map(([index]) => Number(index)) : [];
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
