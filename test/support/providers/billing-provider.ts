import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { BillLine } from '#db/reconcile/bill/line.ts';
import { type Books, serveReport } from '../billing/billing-provider.ts';
import type { PricedPart, Rate } from '#db/pricing/parts.ts';

/** Quantities of a call as the provider counts them. */
export type Parts = { readonly [Part in PricedPart]?: number };

/** How the provider answers the next request. */
export type Reply = {
  parts: Parts;
  tier?: string;
  /** `cut`: a stream that breaks off before its usage. `error`: a 500, although the model has run. */
  ending?: 'whole' | 'cut' | 'error';
};

/** One request in the provider's own ledger. */
export type Booked = {
  id: string;
  at: Date;
  model: string;
  credential: string;
  tier: string;
  parts: Parts;
};

/** A provider with a ledger, over real connections. It bills what its ledger has, however a reply ended. */
export type BillingProvider = AsyncDisposable & {
  baseUrl: string;
  ledger: Booked[];
  /** The replies of the next requests, each once. */
  replies: Reply[];
  /** What its billing APIs report, at the same address: by default nothing. */
  books: Books;
};

const ADMIN_KEY = 'sk-admin-canary-5d1e7c20b8f4';

const json = (response: ServerResponse, status: number, body: object): void => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
};

/** @param prefix of the provider's request ids. */
export async function startBillingProvider(prefix: string): Promise<BillingProvider> {
  const ledger: Booked[] = [];
  const replies: Reply[] = [];
  const books: Books = {
    adminKey: ADMIN_KEY,
    ledger: [],
    faults: [],
    asked: [],
    bucketsPerPage: Infinity,
    dayOffsetMs: 0,
  };
  const server = createServer((request, response) => {
    if (request.method === 'GET') return serveReport(request, response, books);
    const pieces: Buffer[] = [];
    response.on('error', () => undefined);
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const { model } = JSON.parse(Buffer.concat(pieces).toString()) as { model: string };
      const reply = replies.shift() ?? { parts: { input: 1, output: 1 } };
      const booked = {
        id: `${prefix}-${ledger.length + 1}`,
        at: new Date(),
        model,
        credential: request.headers.authorization?.replace('Bearer sk-', '') ?? '',
        tier: reply.tier ?? 'default',
        parts: reply.parts,
      };
      ledger.push(booked);
      answer(response, booked, reply.ending ?? 'whole');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    ledger,
    replies,
    books,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function answer(response: ServerResponse, booked: Booked, ending: NonNullable<Reply['ending']>): void {
  const { id, model, tier } = booked;
  const created = Math.floor(booked.at.getTime() / 1_000);
  if (ending === 'error')
    return json(response, 500, { error: { message: 'The server had an error.', type: 'server_error' } });
  if (ending === 'cut') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const choices = [{ index: 0, delta: { content: 'The tide turns at ' }, finish_reason: null }];
    response.write(
      `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created, model, choices })}\n\n`,
    );
    setTimeout(() => response.socket?.destroy(), 30);
    return;
  }
  const message = { role: 'assistant', content: 'At noon.' };
  json(response, 200, {
    id,
    object: 'chat.completion',
    created,
    model,
    service_tier: tier,
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: usageOf(booked.parts),
  });
}

/** The usage of a reply, whose parts are within the prompt and within the completion. */
function usageOf(parts: Parts): object {
  const count = (part: PricedPart): number => parts[part] ?? 0;
  const written = count('cache_write_5m') + count('cache_write_1h');
  const prompt = count('input') + count('cache_read') + written + count('audio_input');
  const completion = count('output') + count('reasoning') + count('audio_output');
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: count('cache_read'),
      cache_write_tokens: written,
      audio_tokens: count('audio_input'),
    },
    completion_tokens_details: {
      reasoning_tokens: count('reasoning'),
      audio_tokens: count('audio_output'),
    },
    cache_creation: { ephemeral_1h_input_tokens: count('cache_write_1h') },
    server_tool_use: { web_search_requests: count('web_search') },
  };
}

/** What a part costs in nano-dollars; the prices of these tests are whole nano-dollars for each token. */
export function costOfPart(part: PricedPart, quantity: number, rate: Rate): bigint {
  const price = BigInt(rate[part] ?? 0);
  return part === 'web_search' ? BigInt(quantity) * price : (BigInt(quantity) * price) / 1_000_000n;
}

/** The lines of a booked request on the bill: one for each part. */
export function linesOf(
  booked: Booked,
  rate: Rate,
  change: Partial<Omit<BillLine, 'from' | 'to'>> & { at?: Date; parts?: Parts } = {},
): BillLine[] {
  const { at = booked.at, parts = booked.parts, ...fields } = change;
  return Object.entries(parts).map(([name, quantity], index) => {
    const part = name as PricedPart;
    return {
      place: `${booked.id} ${part}`,
      kind: 'usage',
      from: at,
      to: at,
      model: booked.model,
      credential: booked.credential,
      serviceTier: booked.tier,
      requestId: booked.id,
      part,
      quantity: BigInt(quantity),
      requests: index === 0 ? 1n : null,
      cost: costOfPart(part, quantity, rate),
      currency: 'USD',
      ...fields,
    };
  });
}
