import { z } from 'zod';
import { PlanTerms } from '#db/events/events.ts';
import { ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import { PriceTerms } from '#server/contract/models.ts';
import { ChangeReply } from '#server/contract/parts.ts';

/** Contract for the desired state of upstreams, models, plans and prices: `daybook apply`. Pure. */

const Secret = z.strictObject({ secret: z.string().min(1) });
const DeclaredUpstream = z.strictObject({
  terms: UpstreamTerms,
  /** Whether a paused upstream stays paused, whatever the terms say. */
  keep_paused: z.boolean().default(false),
  /** By label; absent: credentials stay as they are. */
  credentials: z.record(z.string(), Secret).optional(),
});
/** An absent section leaves its objects unchanged. */
export const DeclaredState = z.strictObject({
  upstreams: z.record(z.string(), DeclaredUpstream).optional(),
  models: z.record(z.string(), ModelTerms).optional(),
  plans: z.record(z.string(), PlanTerms).optional(),
  prices: z.record(z.string(), PriceTerms).optional(),
});
export type DeclaredState = z.input<typeof DeclaredState>;

/** `POST /api/v1/desired-state/plan` */
export const PlanState = z.strictObject({
  state: DeclaredState,
  /** Also remove upstreams, models and credentials that the sections don't name. */
  prune: z.boolean().default(false),
});
/**
 * `POST /api/v1/desired-state/apply`: all of the plan, or nothing. With `digest` of a plan it is 412
 * `precondition_failed` if the differences aren't the same any more.
 */
export const ApplyState = PlanState.extend({ digest: z.string().max(100).optional() });

const SectionName = z.enum(['upstreams', 'models', 'plans', 'prices']);
export const StateDifference = z.object({
  section: SectionName,
  name: z.string(),
  change: z.enum(['added', 'changed', 'removed']),
  /** Secrets are shown by their last characters. */
  fields: z.array(
    z.object({ field: z.string(), before: z.unknown().optional(), after: z.unknown().optional() }),
  ),
  /** Drift: what others changed since the caller's own last change of the object, newest first. */
  changed_by: z.array(
    z.object({ type: z.string(), actor: z.string(), at: z.string(), position: z.number() }),
  ),
});
export const StatePlan = z.object({
  object: z.literal('state_plan'),
  differences: z.array(StateDifference),
  digest: z.string(),
});
export type StatePlan = z.infer<typeof StatePlan>;
export const StateApplied = z.object({
  ...ChangeReply.shape,
  object: z.literal('state_applied'),
  differences: z.array(StateDifference),
});
export type StateApplied = z.infer<typeof StateApplied>;
