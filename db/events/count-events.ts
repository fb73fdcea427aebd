import { z } from 'zod';
import { Attributed } from '#db/events/attribution-events.ts';
import { USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import { Count, Id, ModelName, RequestId, UpstreamName } from '#db/events/parts.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';

/** The tokens of a request were counted in advance, for a client that asked. It is charged nothing. Pure. */
export const TokensCounted = z.object({
  type: z.literal('tokens.counted'),
  request: RequestId,
  account: Id,
  key: Id,
  model: ModelName,
  ...Attributed,
  /** The route that the request would be sent by. */
  route: z.enum(RELAYED_ROUTES),
  body_bytes: Count,
  /** The upstream that counted; absent: the number is an estimate. */
  upstream: UpstreamName.optional(),
  usage_source: z.enum(Object.keys(USAGE_SOURCES) as [UsageSource, ...UsageSource[]]),
  input_tokens: Count,
  duration_ms: Count,
});
