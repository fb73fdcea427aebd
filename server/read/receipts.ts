import type { Response } from 'express';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { formatTlogProof, type Receipt } from '#db/tlog/receipt.ts';
import { replyOf } from '#server/http/respond.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { type ApiRoute, ANY_ROLE, route, scopeOfMember } from '#server/dashboard/gate.ts';
import { holderOf, type Reader, unknownRequest, UUID, withReadSlot } from '#server/read/api.ts';
import { readQuery } from '#server/read/query.ts';
import type { ReadStore } from '#server/read/store.ts';
import { issueReceipt, RECEIPTS } from '#server/read/receipt.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Relay } from '#server/relay/relay.ts';

/** What receipts are made with; `witnesses` are the verifier keys that the operator has named. */
export type Receipts = { reads: ReadStore; relay: Pick<Relay, 'draining'>; witnesses: readonly string[] };

/** A checkpoint comes within ten seconds, and a busy machine is given some more. */
const WAIT_MAX_S = 15;
/** How often it is looked whether there is one by now. */
const LOOK_MS = 500;

const ReceiptQuery = z.strictObject({
  format: z.enum(['json', 'tlog-proof']).default('json'),
  /** Seconds. */
  wait: z.coerce.number().int().min(0).max(WAIT_MAX_S).default(WAIT_MAX_S),
});

/**
 * The receipt of one request, which the path names. Whoever asks right after the call waits until a
 * checkpoint covers it, since to ask once is what people do; who would rather ask again says `wait=0`.
 * @returns null where it has replied by itself.
 */
export async function answerReceipt(
  { reads, relay, witnesses }: Receipts,
  { scope, request, response, holder }: Reader,
): Promise<Receipt | ApiError | null> {
  const query = readQuery(ReceiptQuery, request.url);
  if (query instanceof ApiError) return query;
  const { request: id } = request.params as { request: string };
  const until = performance.now() + query.wait * 1_000;
  /**
   * The log's head when it was first asked: what is not known when the tables have come so far never will be.
   */
  let head: number | null = null;
  for (;;) {
    const read = await reads.read(RECEIPTS, async (client) =>
      UUID.test(id) ? issueReceipt(client, scope, id, witnesses) : null,
    );
    if (read instanceof ApiError) return read;
    const { asOf, found } = read;
    head ??= asOf.position + asOf.behind;
    const receipt = found ?? unknownRequest(holder, asOf);
    if (!(receipt instanceof ApiError))
      return query.format === 'json' ? receipt : sendProof(response, receipt);
    const isEarly =
      receipt.code === 'receipt_not_ready' ||
      (receipt.code === 'request_not_found' && asOf.position < head && UUID.test(id));
    if (!isEarly || performance.now() + LOOK_MS > until || relay.draining || response.destroyed)
      return receipt;
    await wait(LOOK_MS);
  }
}

/**
 * The same for those who are signed in: members those of their account's requests, the others everybody's.
 */
export function receiptRoutes({
  reads,
  relay,
  config,
}: Pick<Dashboard, 'reads' | 'relay' | 'config'>): ApiRoute[] {
  const receipts: Receipts = { reads, relay, witnesses: config.WITNESSES };
  return [
    route('get', '/api/requests/:request/receipt', ANY_ROLE, null, ({ request, response }, who) => {
      const reader: Reader = { scope: scopeOfMember(who), holder: holderOf(who), request, response };
      return withReadSlot(reads, reader.holder, () => answerReceipt(receipts, reader));
    }),
  ];
}

function sendProof(response: Response, receipt: Receipt): null {
  const { requestId, extraHeaders } = replyOf(response);
  const body = formatTlogProof(receipt);
  response.writeHead(200, [
    'content-type',
    'text/plain; charset=utf-8',
    'content-disposition',
    `attachment; filename="${receipt.request}.tlog-proof"`,
    'content-length',
    String(Buffer.byteLength(body)),
    'x-request-id',
    requestId,
    ...extraHeaders,
  ]);
  response.end(body);
  return null;
}
