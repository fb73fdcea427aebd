import express, { type Request, type Response, type Router } from 'express';
import { z } from 'zod';
import type { Key } from '#db/fold/key.ts';
import { readSecretFromEither } from '#server/access/authenticate.ts';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { authorizeAnywhere, authorizeModel } from '#server/access/authorize.ts';
import { authorizePriceOf } from '#server/access/authorize-price.ts';
import { identify } from '#server/access/identify.ts';
import { apiErrorOfModel } from '#server/upstreams/find-targets.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf, sendApiError, sendJson } from '#server/http/respond.ts';
import { invalidParameter, readQuery } from '#server/read/query.ts';
import { MODELS_PAGE_MAX, MODELS_PAGE_USUAL } from '#server/relay/bounds.ts';
import type { ModelList } from '#server/models/model-list.ts';
import type { Relay } from '#server/relay/relay.ts';
import { MESSAGES } from '#server/relay/routes.ts';

/**
 * `GET /v1/models` and `GET /v1/models/{model}`, as OpenAI's clients expect them, and as Anthropic's do where
 * the request has their header `anthropic-version`. A model is listed exactly when a call with it
 * would be admitted by some route that the key may use.
 */

const MODELS = '/v1/models';
/** The names of models may have slashes; a path that climbs is no name. */
const MODEL = /^\/v1\/models\/(?!(?:.*\/)?\.\.(?:\/|$))(.+)$/;
export const MODEL_ROUTES = [MODELS, MODEL] as const;

type Model = { model: string; upstream: string };

const openAIModel = ({ model, upstream }: Model): object => ({
  id: model,
  object: 'model',
  created: 0,
  owned_by: upstream,
});

/** With null, and with the epoch, for what Anthropic's reference allows to be unknown. */
const anthropicModel = ({ model }: Model): object => ({
  type: 'model',
  id: model,
  display_name: model,
  created_at: '1970-01-01T00:00:00Z',
  capabilities: null,
  max_input_tokens: null,
  max_tokens: null,
});

/** Other parameters, such as `beta`, are ignored. */
const AnthropicPage = z.object({
  limit: z.coerce.number().int().min(1).max(MODELS_PAGE_MAX).default(MODELS_PAGE_USUAL),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
});

/** A page of the list after or before a model. @returns a refusal where that model is not in the list. */
function anthropicPage(models: readonly Model[], url: string): object | ApiError {
  const query = readQuery(AnthropicPage, url);
  if (query instanceof ApiError) return query;
  const { limit, after_id: after, before_id: before } = query;
  if (after !== undefined && before !== undefined)
    return invalidParameter('before_id', "can't be combined with after_id");
  const cursor = after ?? before;
  const at = models.findIndex(({ model }) => model === cursor);
  if (cursor !== undefined && at < 0)
    return invalidParameter(after === undefined ? 'before_id' : 'after_id', 'is not in the list of models');
  const from = before === undefined ? at + 1 : Math.max(0, at - limit);
  const to = before === undefined ? from + limit : at;
  const page = models.slice(from, to);
  return {
    data: page.map(anthropicModel),
    has_more: before === undefined ? to < models.length : from > 0,
    first_id: page[0]?.model ?? null,
    last_id: page.at(-1)?.model ?? null,
  };
}

/** `routes`: the relayed routes that the key may call, or why it may call none. */
type Caller = { key: Key; routes: readonly RelayedRoute[] | ApiError; isAnthropic: boolean };

/** @param modelList of all keys. */
export function modelRoutes(relay: Relay, modelList: ModelList): Router {
  const { readModel } = relay;
  const routes = express.Router({ caseSensitive: true });

  /** Why calls of a model by its name or an alias are rejected by every route; null: by one they aren't. */
  const refusalOf = ({ key, routes: permitted }: Caller, name: string): ApiError | null => {
    const { table } = relay.upstreams;
    const model = table.resolve(name);
    const forbidden = authorizeModel(key, model, readModel);
    if (forbidden || permitted instanceof ApiError) return forbidden ?? (permitted as ApiError);
    const unserved = permitted.map((route) => apiErrorOfModel(table, model, route));
    return unserved.includes(null) ? authorizePriceOf(key, model, readModel) : (unserved[0] as ApiError);
  };

  /** The relayed routes that the key may call, or why it may call none. */
  const routesOf = (key: Key, request: Request): RelayedRoute[] | ApiError => {
    const origin = request.headers.origin ?? null;
    const refusals = RELAYED_ROUTES.map((route) => authorizeAnywhere(key, { route, origin }, readModel));
    const permitted = RELAYED_ROUTES.filter((_, index) => refusals[index] === null);
    return permitted.length > 0 ? permitted : (refusals[0] as ApiError);
  };

  /** The caller of a request, or null where an error was sent. */
  const callerOf = (request: Request, response: Response): Caller | null => {
    const isAnthropic = request.headers['anthropic-version'] !== undefined;
    if (isAnthropic) Object.assign(replyOf(response), { errorFormat: MESSAGES.errorFormat });
    const key = identify(relay, request, MODELS, isAnthropic ? readSecretFromEither : undefined);
    if (!(key instanceof ApiError)) return { key, routes: routesOf(key, request), isAnthropic };
    sendApiError(request, response, key);
    return null;
  };

  routes.get(MODELS, async (request, response) => {
    const caller = callerOf(request, response);
    if (caller === null) return;
    const models = (await modelList.read()).filter(({ model }) => refusalOf(caller, model) === null);
    const list = caller.isAnthropic
      ? anthropicPage(models, request.url)
      : { object: 'list', data: models.map(openAIModel) };
    if (list instanceof ApiError) sendApiError(request, response, list);
    else sendJson(response, 200, list);
  });

  routes.get(MODEL, (request, response) => {
    const caller = callerOf(request, response);
    if (caller === null) return;
    const model = request.params[0] ?? '';
    const refusal = refusalOf(caller, model);
    const upstream = relay.upstreams.table.servedBy(model)?.name ?? '';
    if (refusal) sendApiError(request, response, refusal);
    else sendJson(response, 200, (caller.isAnthropic ? anthropicModel : openAIModel)({ model, upstream }));
  });

  return routes;
}
