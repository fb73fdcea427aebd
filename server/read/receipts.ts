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

/** Dependencies of receipts; `witnesses` are the configured verifier keys. */
export type Receipts = { reads: ReadStore; relay: Pick<Relay, 'phase'>; witnesses: readonly string[] };

/** Checkpoints are published every ten seconds, plus a margin for a busy machine. */
const WAIT_MAX_S = 15;
/** Interval between checks for a new checkpoint. */
const LOOK_MS = 500;

const ReceiptQuery = z.strictObject({
  format: z.enum(['json', 'tlog-proof']).default('json'),
  /** Seconds. */
  wait: z.coerce.number().int().min(0).max(WAIT_MAX_S).default(WAIT_MAX_S),
});

/**
 * The receipt of the request that the path names. Waits until a checkpoint covers the request, since most
 * clients ask once, right after the call; `wait=0` returns at once.
 * @returns null if it has replied itself.
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
   * The log's head at the first read: a request that is unknown when the projection has reached it doesn't
   * exist.
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
    if (!isEarly || performance.now() + LOOK_MS > until || relay.phase !== 'serving' || response.destroyed)
      return receipt;
    await wait(LOOK_MS);
  }
}

/**
 * The same route for members, who get receipts of their account's requests; administrators and auditors of
 * all.
 */
export function receiptRoutes({
  reads,
  relay,
  config,
}: Pick<Dashboard, 'reads' | 'relay' | 'config'>): ApiRoute[] {
  const receipts: Receipts = { reads, relay, witnesses: config.WITNESSES };
  return [
    route(
      'get',
      '/api/v1/requests/:request/receipt',
      'usage:read',
      ANY_ROLE,
      { query: ReceiptQuery, reply: z.looseObject({}), others: ['text/plain'] },
      ({ request, response }, who) => {
        const reader: Reader = { scope: scopeOfMember(who), holder: holderOf(who), request, response };
        return withReadSlot(reads, reader.holder, () => answerReceipt(receipts, reader));
      },
    ),
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
