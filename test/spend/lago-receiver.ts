import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';

/**
 * Lago's endpoint for batches of events, after its public API reference and the replies that its issues show:
 * a batch is saved whole or refused whole, with the errors of each event by its index.
 */

/** The event of Lago's API reference (`EventInputObject`); unknown fields are none of Lago's. */
const LagoEvent = z.strictObject({
  transaction_id: z.string().min(1),
  external_subscription_id: z.string().min(1),
  code: z.string().min(1),
  /** Seconds since 1970, with milliseconds as decimals. */
  timestamp: z.union([z.int(), z.string().regex(/^\d+(\.\d{1,3})?$/)]).optional(),
  precise_total_amount_cents: z.union([z.int(), z.string().regex(/^-?\d+(\.\d+)?$/)]).optional(),
  properties: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
});
export type LagoEvent = z.infer<typeof LagoEvent>;
const Batch = z.strictObject({ events: z.array(LagoEvent).min(1) });
/** `LAGO_EVENTS_BATCH_MAX_LENGTH` by default. */
const EVENTS_MAX = 100;

export type LagoReceiver = AsyncDisposable & {
  url: string;
  /** By subscription and transaction, which together are unique. */
  saved: Map<string, LagoEvent>;
  /** The number of events of each request. */
  requests: number[];
  /** Codes of metrics that exist; events of others are ignored. */
  codes: Set<string>;
  /** What happens with the reply of the next requests: sent, or lost after the batch was saved. */
  next: ('reply' | 'lose' | 'fail')[];
};

export async function startLago(apiKey: string): Promise<LagoReceiver> {
  const lago = {
    saved: new Map<string, LagoEvent>(),
    requests: [] as number[],
    codes: new Set(['llm_usage']),
    next: [] as LagoReceiver['next'],
  };

  function answer(body: string): { status: number; body: object } {
    const parsed = Batch.safeParse(JSON.parse(body));
    if (!parsed.success) return unprocessable({ events: z.treeifyError(parsed.error).errors });
    const { events } = parsed.data;
    lago.requests.push(events.length);
    if (events.length > EVENTS_MAX) return unprocessable({ events: ['too_many_events'] });
    const known = events.flatMap((event, index) =>
      lago.saved.has(keyOf(event)) ? [[String(index), { transaction_id: ['value_already_exist'] }]] : [],
    );
    if (known.length > 0) return unprocessable(Object.fromEntries(known));
    for (const event of events) if (lago.codes.has(event.code)) lago.saved.set(keyOf(event), event);
    return { status: 200, body: { events } };
  }

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => undefined);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const reply = (status: number, body: object): void =>
        void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      if (request.headers.authorization !== `Bearer ${apiKey}`) return reply(401, { error: 'Unauthorized' });
      if (request.method !== 'POST' || request.url !== '/api/v1/events/batch')
        return reply(404, { error: 'Not Found' });
      const next = lago.next.shift() ?? 'reply';
      if (next === 'fail') return reply(500, { error: 'Internal Server Error' });
      const { status, body } = answer(Buffer.concat(chunks).toString());
      if (next === 'lose') return void request.socket.destroy();
      reply(status, body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(lago, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

const keyOf = ({ external_subscription_id: subscription, transaction_id: transaction }: LagoEvent): string =>
  `${subscription} ${transaction}`;

const unprocessable = (error_details: object) => ({
  status: 422,
  body: { status: 422, error: 'Unprocessable Entity', code: 'validation_errors', error_details },
});
