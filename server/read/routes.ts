import express, { type Router } from 'express';
import type { Key } from '#db/fold/key.ts';
import type { Budget } from '#db/forecast/read-forecasts.ts';
import type { Route } from '#db/limits/limits.ts';
import type { CallAttribution } from '#db/limits/subjects.ts';
import { UNATTRIBUTED } from '#server/attribution/attribution.ts';
import { readAttribution } from '#server/attribution/read-attribution.ts';
import { applyTerms } from '#server/attribution/require.ts';
import { sendApiError, sendJson } from '#server/http/respond.ts';
import {
  answerRequests,
  answerRequestDetail,
  answerUsage,
  type Reader,
  type ReadContext,
  withReadSlot,
} from '#server/read/api.ts';
import { answerReceipt } from '#server/read/receipts.ts';
import { answerStatement } from '#server/read/statements.ts';
import { answerSpendEvents } from '#server/spend/answer.ts';
import { forecastsOf } from '#server/read/forecasts.ts';
import type { ReadStore } from '#server/read/store.ts';
import { scopeOf } from '#server/read/scope.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { identify } from '#server/access/identify.ts';
import type { Relay } from '#server/relay/relay.ts';
import { type Usage, usageOf } from '#server/relay/usage-report.ts';

/** The Express paths of the read API. */
export const READ_ROUTES = [
  '/v1/usage',
  '/v1/requests',
  '/v1/requests/:request',
  '/v1/requests/:request/receipt',
  '/v1/spend-events',
  '/v1/statements',
] as const;

type KeyReader = Reader & { key: Key };

const NO_BODY = { bytes: Buffer.alloc(0), scanned: { members: new Map() } };

/**
 * The read API for keys: usage, requests, details of one request and its receipt, spend events and
 * statements.
 */
export function readRoutes({
  relay,
  reads,
  witnesses,
}: {
  relay: Relay;
  reads: ReadStore;
  witnesses: readonly string[];
}): Router {
  const routes = express.Router({ caseSensitive: true });
  const reading: ReadContext = { reads, readModel: relay.readModel };
  const receipts = { reads, relay, witnesses };

  /** @param answer returns the reply; null: it has replied itself. */
  const get = (
    path: (typeof READ_ROUTES)[number],
    route: Route,
    answer: (reader: KeyReader) => Promise<object | ApiError | null>,
  ): void => {
    routes.get(path, async (request, response) => {
      const key = identify(relay, request, route);
      if (key instanceof ApiError) return sendApiError(request, response, key);
      const reader: KeyReader = { key, scope: scopeOf(key), holder: `key/${key.id}`, request, response };
      const answered = await withReadSlot(reads, reader.holder, () => answer(reader));
      if (answered instanceof ApiError) sendApiError(request, response, answered);
      else if (answered !== null) sendJson(response, 200, answered);
    });
  };

  get('/v1/usage', '/v1/usage', async (reader) => {
    const report = await answerUsage(reading, reader);
    if (report === null || report instanceof ApiError) return report;
    const { readModel, instance } = relay;
    const call = await attributionOf(relay, reader);
    const forecast = asksForForecast(reader.request.url)
      ? (budgets: readonly Budget[]) => forecastsOf(reads, budgets, readModel.nowMs())
      : null;
    const usage: Usage | null = await usageOf(reader.key, readModel, instance.limits, call, forecast);
    return usage === null ? new ApiError('store_unavailable') : { ...usage, ...report };
  });
  get('/v1/requests', '/v1/requests', (reader) => answerRequests(reading, reader));
  get('/v1/requests/:request', '/v1/requests', (reader) => answerRequestDetail(reading, reader));
  get('/v1/requests/:request/receipt', '/v1/requests', (reader) => answerReceipt(receipts, reader));
  get('/v1/spend-events', '/v1/requests', (reader) => answerSpendEvents(reading, reader));
  get('/v1/statements', '/v1/requests', (reader) => answerStatement({ reads, witnesses }, reader));

  return routes;
}

/** Whether a request, whose query is valid, asks for forecasts. */
const asksForForecast = (url: string): boolean =>
  new URLSearchParams(url.split('?', 2)[1]).get('forecast') === 'true';

/** The end user, session and tags that the headers of a request name, or its key fixes. */
async function attributionOf({ attribution }: Relay, { key, request }: KeyReader): Promise<CallAttribution> {
  const sent = readAttribution(request.rawHeaders, NO_BODY.bytes, NO_BODY.scanned);
  const terms = key.terms?.attribution;
  const values = terms === undefined ? sent : applyTerms(sent, terms);
  if (values instanceof ApiError) return UNATTRIBUTED;
  return (await attribution.resolve(key.account, values)) ?? UNATTRIBUTED;
}
