import type { IncomingMessage } from 'node:http';
import type { Key } from '#db/fold/key.ts';
import type { Route } from '#db/limits.ts';
import { Refusal } from '#server/errors.ts';
import { authenticate } from '#server/relay/authenticate.ts';
import { authorize } from '#server/relay/authorize.ts';
import { callerOf } from '#server/relay/caller.ts';
import type { Relay } from '#server/relay/relay.ts';

/** The good key behind a request to a route that it may use, or why there is none. For all routes but the relayed calls. */
export function identify(relay: Relay, request: IncomingMessage, route: Route): Key | Refusal {
  if (!relay.readModel.isCurrent()) return new Refusal('store_unavailable');
  const key = authenticate(request.rawHeaders, relay.readModel, relay.pepper, relay.secretUse);
  if (key instanceof Refusal) return key;
  return authorize(key, callerOf(request, route, relay.trustedProxies), relay.readModel) ?? key;
}
