import express, { type Request, type Response, type Router } from 'express';
import type { Key } from '#db/fold/key.ts';
import { CHAT_COMPLETIONS, RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { authorizeAnywhere, authorizeModel } from '#server/access/authorize.ts';
import { authorizePriceOf } from '#server/access/authorize-price.ts';
import { identify } from '#server/access/identify.ts';
import { apiErrorOfModel, findTargets } from '#server/upstreams/find-targets.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf, sendApiError, sendJson } from '#server/http/respond.ts';
import {
  ANTHROPIC_MODELS,
  GEMINI_MODELS,
  type Model,
  type ModelFormat,
  OPENAI_MODELS,
} from '#server/models/model-formats.ts';
import type { ModelList } from '#server/models/model-list.ts';
import type { Relay } from '#server/relay/relay.ts';
import { keyInAddress } from '#server/relay/routes.ts';

/**
 * `GET /v1/models` and `GET /v1/models/{model}`, as OpenAI's clients expect them, as Anthropic's do where
 * the request has their header `anthropic-version`, and as Google's do where it has theirs,
 * `x-goog-api-key`, or is below `/v1beta`. A model is listed exactly when a call with it would be admitted by
 * some route that the key may use.
 */

const MODELS = '/v1/models';
const GEMINI_LIST = '/v1beta/models';
/** The names of models may have slashes; a path that climbs is no name. */
const MODEL = /^\/v1\/models\/(?!(?:.*\/)?\.\.(?:\/|$))(.+)$/;
/** Behind a colon may be a method, which begins in lower case and has a capital. */
const GEMINI_MODEL = /^\/v1beta\/models\/(?!(?:.*\/)?\.\.(?:\/|$))(?!.*:[a-z]+[A-Z]\w*$)(.+)$/;
export const MODEL_ROUTES = [MODELS, MODEL, GEMINI_LIST, GEMINI_MODEL] as const;

/** `routes`: the relayed routes that the key may call, or why it may call none. */
type Caller = { key: Key; routes: readonly RelayedRoute[] | ApiError; format: ModelFormat };

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

  /** Whether calls of a model by the routes that Gemini's methods are calls of are admitted. */
  const methodsOf = ({ routes: permitted }: Caller, name: string): Pick<Model, 'isChat' | 'embeds'> => {
    const { table } = relay.upstreams;
    const isServed = (route: RelayedRoute): boolean =>
      !(permitted instanceof ApiError) &&
      permitted.includes(route) &&
      !(findTargets(table, table.resolve(name), route, 'gemini') instanceof ApiError);
    return { isChat: isServed(CHAT_COMPLETIONS), embeds: isServed('/v1/embeddings') };
  };

  /** The caller of a request, or null where an error was sent. */
  const callerOf = (request: Request, response: Response): Caller | null => {
    const format = formatOf(request);
    Object.assign(replyOf(response), { errorFormat: format.errors });
    const misplaced = format === GEMINI_MODELS ? keyInAddress(request.url) : null;
    const key = misplaced ?? identify(relay, request, MODELS, format.readSecret);
    if (!(key instanceof ApiError)) return { key, routes: routesOf(key, request), format };
    sendApiError(request, response, key);
    return null;
  };

  routes.get([MODELS, GEMINI_LIST], async (request, response) => {
    const caller = callerOf(request, response);
    if (caller === null) return;
    const models = (await modelList.read())
      .filter(({ model }) => refusalOf(caller, model) === null)
      .map(({ model, upstream }) => ({ model, upstream, ...methodsOf(caller, model) }));
    const list = caller.format.list(models, request.url);
    if (list instanceof ApiError) sendApiError(request, response, list);
    else sendJson(response, 200, list);
  });

  routes.get([MODEL, GEMINI_MODEL], (request, response) => {
    const caller = callerOf(request, response);
    if (caller === null) return;
    const model = request.params[0] ?? '';
    const refusal = refusalOf(caller, model);
    const upstream = relay.upstreams.table.servedBy(model)?.name ?? '';
    if (refusal) sendApiError(request, response, refusal);
    else sendJson(response, 200, caller.format.one({ model, upstream, ...methodsOf(caller, model) }));
  });

  return routes;
}

/** Who asks, by the headers and paths that only their clients have. */
function formatOf({ headers, path }: Request): ModelFormat {
  if (headers['anthropic-version'] !== undefined) return ANTHROPIC_MODELS;
  return path.startsWith(GEMINI_LIST) || headers['x-goog-api-key'] !== undefined
    ? GEMINI_MODELS
    : OPENAI_MODELS;
}
