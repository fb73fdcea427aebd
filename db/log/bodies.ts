import { z } from 'zod';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { Attempt, ATTEMPTS_MAX } from '#db/events/upstream-events.ts';

/** The fields of request events that have no column, in the JSON of `body`. Pure. */

const Accepted = z.strictObject({ route: z.enum(RELAYED_ROUTES) });
const Settled = z.strictObject({ attempts: z.array(Attempt).max(ATTEMPTS_MAX) });

/** The route of an accepted request. @throws {Error} where the body is not of the vocabulary. */
export function parseRoute(body: string): RelayedRoute {
  return Accepted.parse(JSON.parse(body)).route;
}

/** The attempts of a settled request. @throws {Error} where the body is not of the vocabulary. */
export function parseAttempts(body: string): Attempt[] {
  return Settled.parse(JSON.parse(body)).attempts;
}
