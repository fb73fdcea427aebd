import express, { type Request, type Response, type Router } from 'express';
import type { Key } from '#db/fold/key.ts';
import type { Route } from '#db/limits.ts';
import { refuseWith, sendJson } from '#server/answer.ts';
import type { ReadStore } from '#server/dashboard/read-store.ts';
import { Refusal } from '#server/errors.ts';
import { identify } from '#server/relay/identify.ts';
import type { Relay } from '#server/relay/relay.ts';
import { usageOf } from '#server/relay/usage.ts';

/** The paths of the read API, as Express spells them. */
export const READ_ROUTES = ['/v1/usage'] as const;

type Reader = { key: Key; request: Request; response: Response };

/** What programs and the dashboard read: usage, requests, the story of one. It changes nothing. */
export function readRoutes({ relay, reads }: { relay: Relay; reads: ReadStore }): Router {
  const routes = express.Router({ caseSensitive: true });

  /** @param answer replies, or returns why it did not. */
  const get = (path: (typeof READ_ROUTES)[number], route: Route, answer: (reader: Reader) => Promise<Refusal | null>): void => {
    routes.get(path, async (request, response) => {
      const key = identify(relay, request, route);
      if (key instanceof Refusal) return refuseWith(request, response, key);
      const leave = reads.enter(key.id);
      if (leave instanceof Refusal) return refuseWith(request, response, leave);
      try {
        const refusal = await answer({ key, request, response });
        if (refusal) refuseWith(request, response, refusal);
      } finally {
        leave();
      }
    });
  };

  get('/v1/usage', '/v1/usage', async ({ key, response }) => {
    sendJson(response, 200, await usageOf(key, relay.readModel, relay.seat.limits));
    return null;
  });

  return routes;
}
