import type { IncomingMessage } from 'node:http';
import type { Key } from '#db/fold/key.ts';
import type { Route } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { authenticate } from '#server/access/authenticate.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import type { Relay } from '#server/relay/relay.ts';

/**
 * The active key behind a request to a route that it may use, or the error. For all routes but the
 * relayed calls.
 */
export function identify(relay: Relay, request: IncomingMessage, route: Route): Key | ApiError {
  if (!relay.readModel.isCurrent()) return new ApiError('store_unavailable');
  const key = authenticate(request.rawHeaders, relay.readModel, relay.pepper, relay.secretUse);
  if (key instanceof ApiError) return key;
  return authorize(key, requestContextOf(request, route, relay.trustedProxies), relay.readModel) ?? key;
}
