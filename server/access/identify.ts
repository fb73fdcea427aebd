import type { IncomingMessage } from 'node:http';
import type { Key } from '#db/fold/key.ts';
import type { Route } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { authenticate, type readBearerSecret } from '#server/access/authenticate.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import type { Relay } from '#server/relay/relay.ts';

/**
 * The active key behind a request to a route that it may use, or the error. For all routes but the
 * relayed calls.
 * @param read extracts the secret from the headers; by default from `authorization` alone.
 */
export function identify(
  { readModel, pepper, secretUse, trustedProxies }: Relay,
  request: IncomingMessage,
  route: Route,
  read?: typeof readBearerSecret,
): Key | ApiError {
  if (!readModel.isCurrent()) return new ApiError('store_unavailable');
  const key = authenticate(request.rawHeaders, readModel, pepper, secretUse, read);
  if (key instanceof ApiError) return key;
  return authorize(key, requestContextOf(request, route, trustedProxies), readModel) ?? key;
}
