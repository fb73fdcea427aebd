import express, { type Request, type Response, type Router } from 'express';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { z } from 'zod';
import type { Role } from '#db/events/parts.ts';
import { ConflictError } from '#db/log/append.ts';
import { sendCompressedJson } from '#server/http/compressed-json.ts';
import { sendApiError, replyOf, sendJson } from '#server/http/respond.ts';
import { DASHBOARD_BODY_BYTES_MAX } from '#server/dashboard/bounds.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Scope } from '#server/read/scope.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Caller, FindSession, SignedIn } from '#server/sign-in/signed-in.ts';
import type { ManagementScope } from '#db/events/management-scopes.ts';
import { etagOf, readGuard, streamOfRoute } from '#server/dashboard/guards.ts';
import { authenticateManagementKey, checkScope, type KeyCaller } from '#server/access/management-key.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/**
 * Entry to the management API. Each route declares its roles, the scope that a management key needs and the
 * schema of its body, and one function checks the sender, role, scope and body, in this order. A request with
 * an `Authorization` header is a management key's, whatever cookies it has; any other is of a session, and
 * its origin is checked first. Only listed routes exist.
 */

export type ApiCall<Body> = {
  body: Body;
  params: Readonly<Record<string, string>>;
  request: Request;
  response: Response;
};

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type Answer = ApiError | object | null;

/** The query, the body and the successful reply of a route. The API's description is generated from it. */
export type Contract = {
  query?: z.ZodType;
  /** JSON; absent: none is read. */
  body?: z.ZodType;
  reply: z.ZodType;
  /** The type of a reply that isn't one JSON document; `reply` is then one of its lines. */
  type?: 'application/x-ndjson' | 'text/csv';
  /** Further types of the reply, which a parameter or the Accept header chooses. */
  others?: readonly ReplyType[];
};
export type ReplyType = 'application/json' | 'application/pdf' | 'text/csv' | 'text/plain';
type BodyOf<C> = C extends { body: infer B extends z.ZodType } ? z.output<B> : undefined;

/** One route of the management API. `null` roles: public. */
export type ApiRoute = {
  method: Method;
  /** An Express path that begins with `/api/v1/`. */
  path: string;
  /** What a management key needs; null: no key may use the route. */
  scope: ManagementScope | null;
  roles: readonly Role[] | null;
  contract: Contract;
  /** The longest body. */
  bodyBytesMax: number;
  /** Returns the JSON reply; null: it has replied itself. */
  answer: (call: ApiCall<unknown>, who: Caller | null) => Promise<Answer>;
};

/** A route for members with one of these roles, and for management keys with this scope. */
export function route<const C extends Contract>(
  method: Method,
  path: string,
  scope: ManagementScope,
  roles: readonly Role[],
  contract: C,
  answer: (call: ApiCall<BodyOf<C>>, who: Caller) => Promise<Answer>,
  bodyBytesMax = DASHBOARD_BODY_BYTES_MAX,
): ApiRoute {
  return {
    method,
    path,
    scope,
    roles,
    contract,
    bodyBytesMax,
    answer: (call, who) => answer(call as Parameters<typeof answer>[0], who as Caller),
  };
}

/** A route for signed-in members with one of these roles alone: no management key may use it. */
export function memberRoute<const C extends Contract>(
  method: Method,
  path: string,
  roles: readonly Role[],
  contract: C,
  answer: (call: ApiCall<BodyOf<C>>, who: SignedIn) => Promise<Answer>,
): ApiRoute {
  return {
    method,
    path,
    scope: null,
    roles,
    contract,
    bodyBytesMax: DASHBOARD_BODY_BYTES_MAX,
    answer: (call, who) => answer(call as Parameters<typeof answer>[0], who as SignedIn),
  };
}

/** A public route. */
export function publicRoute<const C extends Contract>(
  method: Method,
  path: string,
  contract: C,
  answer: (call: ApiCall<BodyOf<C>>) => Promise<Answer>,
): ApiRoute {
  return {
    method,
    path,
    scope: null,
    roles: null,
    contract,
    bodyBytesMax: DASHBOARD_BODY_BYTES_MAX,
    answer: (call) => answer(call as Parameters<typeof answer>[0]),
  };
}

export const ADMINISTRATORS: readonly Role[] = ['administrator'];
/** Roles that see all accounts. */
export const ADMINISTRATORS_AND_AUDITORS: readonly Role[] = ['administrator', 'auditor'];
/** Roles that make calls and have keys. */
export const CALLERS: readonly Role[] = ['member', 'administrator'];
export const ANY_ROLE: readonly Role[] = ['member', 'administrator', 'auditor'];

/** The requests, usage and events that a caller may see. */
export function scopeOfMember({ role, ownAccount }: Caller): Scope {
  return { account: role === 'member' ? ownAccount : null, key: null };
}

/** What the way in goes by. `publicOrigin`: where people find the dashboard, as far as it was said. */
export type Gate = {
  find: FindSession;
  keys: { readModel: ReadModel; pepper: Buffer };
  log: Logger;
  publicOrigin: string | undefined;
};

/** Whether a request outside the dashboard's API is of an auditor; the reading is recorded in the log. */
export async function mayReadEvents(
  { find, config, audit }: Pick<Dashboard, 'find' | 'config' | 'audit'>,
  request: IncomingMessage,
): Promise<ApiError | null> {
  const foreign = checkOrigin(request, config.PUBLIC_URL);
  if (foreign) return foreign;
  const who = await find(request);
  if (who instanceof ApiError) return who;
  if (!ADMINISTRATORS_AND_AUDITORS.includes(who.role)) return new ApiError('insufficient_role');
  return audit.noteListing(who);
}

/** Mounts the routes. */
export function apiRouter(routes: readonly ApiRoute[], gate: Gate): Router {
  const router = express.Router({ caseSensitive: true });
  for (const { method, path, scope, roles, contract, bodyBytesMax, answer } of routes) {
    const readBody = express.json({
      limit: bodyBytesMax,
      inflate: false,
      strict: true,
      type: 'application/json',
      // Without this an empty body would count as an empty object.
      verify: rejectEmpty,
    });
    router[method](path, async (request, response) => {
      response.setHeader('cache-control', 'no-store');
      const who = await findCaller(request, { scope, roles }, gate);
      if (who instanceof ApiError) return sendApiError(request, response, who);
      const { body } = contract;
      const parsed = body === undefined ? undefined : await parseBody(body, readBody, request, response);
      if (parsed instanceof ApiError) return sendApiError(request, response, parsed);
      const params = request.params as Record<string, string>;
      const asked = { method, path, scope };
      const guard =
        who === null || method === 'get'
          ? null
          : readGuard(asked, request, who.actor, { params, body: parsed });
      if (guard instanceof ApiError) return sendApiError(request, response, guard);
      const stream = streamOfRoute(asked)?.({ params, body: parsed }) ?? null;
      const setEtag = (): void => {
        const etag = stream === null ? null : etagOf(gate.keys.readModel, stream);
        if (etag !== null) response.setHeader('etag', etag);
      };
      try {
        // Of a read it is set before, so that it isn't newer than the reply.
        if (method === 'get') setEtag();
        const answered = await answer(
          { body: parsed, params, request, response },
          guard === null || who === null ? who : { ...who, guard },
        );
        if (method !== 'get' && !(answered instanceof ApiError)) setEtag();
        if (answered instanceof ApiError) sendApiError(request, response, answered);
        else if (answered === null) return;
        // Secrets are in replies to changes alone; see sendCompressedJson.
        else if (method === 'get') await sendCompressedJson(request, response, answered);
        else sendJson(response, 200, answered);
      } catch (error) {
        const refusal = errorOf(error);
        if (!refusal) throw error;
        if (refusal.status === 503)
          gate.log.warn(
            { request: replyOf(response).requestId, ...errorFields(error) },
            'the store is away, too slow or too busy',
          );
        sendApiError(request, response, refusal);
      }
    });
  }
  return router;
}

/** The sender of a request to a route, if they may use it; null: the route is public. */
async function findCaller(
  request: Request,
  { scope, roles }: Pick<ApiRoute, 'scope' | 'roles'>,
  { find, keys, publicOrigin }: Gate,
): Promise<Caller | null | ApiError> {
  // Browsers send this header only with scripts of the same origin, so the site needs no check.
  if (roles !== null && request.headers.authorization !== undefined) {
    const key = authenticateManagementKey(request.rawHeaders, keys.readModel, keys.pepper);
    return key instanceof ApiError ? key : (checkScope(key, scope) ?? requireRole(key, roles));
  }
  const foreign = checkOrigin(request, publicOrigin);
  if (foreign) return foreign;
  if (roles === null) return null;
  const who = await find(request);
  return who instanceof ApiError ? who : requireRole(who, roles);
}

function requireRole<C extends SignedIn | KeyCaller>(who: C, roles: readonly Role[]): C | ApiError {
  return roles.includes(who.role) ? who : new ApiError('insufficient_role');
}

/**
 * Rejects cross-site requests: browsers send cookies from every site, so the site of the request decides.
 * Browsers send it in `Sec-Fetch-Site`, or at least in `Origin` for changes. Clients that aren't browsers
 * must send an Origin for changes.
 */
export function checkOrigin(
  { method, headers }: IncomingMessage,
  publicOrigin: string | undefined,
): ApiError | null {
  const site = headers['sec-fetch-site'];
  if (site === 'same-origin' || (site === 'none' && isRead(method))) return null;
  if (site !== undefined) return new ApiError('cross_site_request');
  if (headers.origin !== undefined)
    return isOwnOrigin(headers, publicOrigin) ? null : new ApiError('cross_site_request');
  return isRead(method)
    ? null
    : new ApiError('cross_site_request', {
        message: 'Changes need an Origin header with the address of this dashboard.',
      });
}

/**
 * Whether a page of this dashboard sent the request, by its Origin header. A proxy may have replaced the Host
 * header that the browser sent, so the public origin counts too.
 */
export function isOwnOrigin(
  { origin, host }: IncomingHttpHeaders,
  publicOrigin: string | undefined,
): boolean {
  return origin !== undefined && (origin === publicOrigin || URL.parse(origin)?.host === host);
}

const isRead = (method: string | undefined): boolean => method === 'GET' || method === 'HEAD';

async function parseBody(
  schema: z.ZodType,
  readBody: express.RequestHandler,
  request: Request,
  response: Response,
): Promise<unknown> {
  const failed = await new Promise<unknown>((resolve) => {
    void readBody(request, response, resolve);
  });
  if (failed) return bodyError(failed);
  // Express leaves it unset for another Content-Type.
  if (request.body === undefined) return new ApiError('unsupported_media_type');
  const parsed = schema.safeParse(request.body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const name = issue?.code === 'unrecognized_keys' ? (issue.keys[0] ?? '') : (issue?.path.join('.') ?? '');
  const why =
    issue?.code === 'unrecognized_keys' ? 'is not a field of this request' : (issue?.message ?? 'is invalid');
  return new ApiError('invalid_value', {
    message: name === '' ? `The body ${why}.` : `"${name}": ${why}.`,
    param: name,
  });
}

function rejectEmpty(_request: unknown, _response: unknown, body: Buffer): void {
  if (body.length === 0) throw new Error('empty body');
}

function bodyError({ status }: { status?: number }): ApiError {
  if (status === 413) return new ApiError('request_too_large');
  return status === 415 ? new ApiError('unsupported_encoding') : new ApiError('invalid_json');
}

/** The error for a failed decision or an unavailable database; null for a bug. */
export function errorOf(error: unknown): ApiError | null {
  if (isStoreFault(error)) return new ApiError('store_unavailable');
  if (error instanceof ConflictError) return new ApiError('version_conflict');
  if (!(error instanceof DecisionError)) return null;
  const code = error.code === 'invalid' ? 'invalid_value' : error.code;
  return new ApiError(code, { message: error.message });
}
