import { z } from 'zod';

/**
 * What the read API and the live feed speak: shapes of replies and frames, and the one filter that
 * drives lists, feed and exports alike. Pure, and shared with the dashboard. Field names are those
 * of the log.
 */

const Id = z.string().regex(/^[0-9A-Za-z]{8}$/);

/** How a request ended, in a few words that people group by. */
export const Outcome = z.enum(['completed', 'client_gone', 'upstream_failed', 'cut_short', 'relay_failed', 'refused']);
export type Outcome = z.infer<typeof Outcome>;

/** Which requests are meant; what is absent does not narrow. */
export const RequestFilter = z.strictObject({
  account: Id.optional(),
  key: Id.optional(),
  model: z.string().min(1).max(256).optional(),
  /** `running`, or how it ended. */
  outcome: z.enum([...Outcome.options, 'running']).optional(),
  /** The HTTP status that the client was given. */
  status: z.coerce.number().int().min(100).max(599).optional(),
});
export type RequestFilter = z.infer<typeof RequestFilter>;
