import { z } from 'zod';
import { Attributed } from '#db/events/attribution-events.ts';
import { Count, Id, ModelName, RejectedSize, RequestId } from '#db/events/parts.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';

/** Rejected calls. Pure. */

/** Calls of a known account that were refused with 403 or 429; many alike are one event. */
export const RequestRejected = z.object({
  type: z.literal('request.rejected'),
  /** The first of them. */
  request: RequestId,
  account: Id,
  key: Id,
  route: z.enum(RELAYED_ROUTES),
  /** Absent where the call was rejected before its body was read. */
  model: ModelName.optional(),
  ...Attributed,
  ...RejectedSize,
  /** The code of the refusal catalogue. */
  error_code: z.string().regex(/^[a-z_]{1,64}$/),
  status: Count,
  rejected_count: z.int().min(1),
});
