import { z } from 'zod';
import { Admission } from '#db/events/admission.ts';
import { END_REASONS, type EndReason, USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import {
  Control,
  Count,
  Id,
  ModelName,
  PlanName,
  ProviderText,
  RequestId,
  RequestSize,
  Time,
  UpstreamName,
} from '#db/events/parts.ts';
import {
  IdempotencyShape,
  LimitsShape,
  Networks,
  PermissionsShape,
  PrepaidShape,
  RELAYED_ROUTES,
} from '#db/limits/limits.ts';
import * as account from '#db/events/account-events.ts';
import * as attribution from '#db/events/attribution-events.ts';
import { TokensCounted } from '#db/events/count-events.ts';
import * as billing from '#db/events/billing-events.ts';
import * as identity from '#db/events/identity/identity-events.ts';
import * as key from '#db/events/key-events.ts';
import * as log from '#db/events/log-events.ts';
import * as managementKey from '#db/events/management-key-events.ts';
import * as member from '#db/events/member-events.ts';
import * as price from '#db/events/price-events.ts';
import { ReconciliationRecorded } from '#db/events/reconciliation-events.ts';
import { RequestRejected } from '#db/events/rejection-events.ts';
import { QuotaAdjusted } from '#db/events/quota-events.ts';
import { CorrectionDeltas, CorrectionOrigin } from '#db/events/usage-events.ts';
import { UsageDetails } from '#db/events/usage-details.ts';
import * as sink from '#db/events/sink-events.ts';
import * as workload from '#db/events/identity/workload-events.ts';
import * as upstream from '#db/events/upstream-events.ts';

/**
 * The vocabulary of the log: one schema per event type, named `subject.verb` in the past tense.
 * Field names are the column names of the table `log`, so there is one spelling from the hot path
 * to the auditor. Events are versioned by adding optional fields; every version ever written must
 * still parse.
 */

/** Whether usage of the running windows counts against the new limits, or they begin at zero. */
export const Windows = z.enum(['keep', 'reset']);

/** The models and limits of an account; an absent field means no limit. */
export const PlanTerms = z.strictObject({
  ...PermissionsShape,
  ...LimitsShape,
  ...price.ChargingShape,
  ...PrepaidShape,
  ...IdempotencyShape,
});
export type PlanTerms = z.infer<typeof PlanTerms>;

/** Whose calls and usage a key may read: its own, or those of its whole account. */
export const Reads = z.enum(['key', 'account']);

/**
 * Limits of a key below those of its account. An absent field does not restrict the key further, except
 * `reads`: without it the key reads only its own requests.
 */
export const KeyTerms = z.strictObject({
  ...PermissionsShape,
  ...LimitsShape,
  networks: Networks.optional(),
  reads: Reads.optional(),
  attribution: attribution.AttributionTerms.optional(),
});
export type KeyTerms = z.infer<typeof KeyTerms>;

const PlanDefined = Control.extend({ type: z.literal('plan.defined'), plan: PlanName, terms: PlanTerms });
const PlanChanged = Control.extend({
  type: z.literal('plan.changed'),
  plan: PlanName,
  terms: PlanTerms,
  windows: Windows,
});
/** Accounts on a retired plan may call nothing until they are put on another. */
const PlanRetired = Control.extend({ type: z.literal('plan.retired'), plan: PlanName });

const AccountPlanChanged = Control.extend({
  type: z.literal('account.plan_changed'),
  account: Id,
  /** Null: on no plan, which limits nothing. */
  plan: PlanName.nullable(),
  windows: Windows,
});
/** Terms of this account alone. Each field that is present stands in place of the plan's. */
const AccountTermsOverridden = Control.extend({
  type: z.literal('account.terms_overridden'),
  account: Id,
  terms: PlanTerms,
  windows: Windows,
});

/** The key's terms, all of them, in place of those it had. */
const KeyRestricted = Control.extend({
  type: z.literal('key.restricted'),
  account: Id,
  key: Id,
  terms: KeyTerms,
  /** When the key ends; null: never. Absent: as before. */
  expires_at: Time.nullable().optional(),
  windows: Windows,
});

/** Which call it is, and for what. */
const call = { request: RequestId, account: Id, key: Id, model: ModelName, ...attribution.Attributed };
/** The route that a call came by. */
const route = z.enum(RELAYED_ROUTES);
/** The same on the events that follow an acceptance, so that each can be filtered alone. */
const laterRoute = { route: route.optional() };
/** What a request may spend until it settles, or until a `request.extended` says more. */
const hold = { hold_tokens: Count, hold_cost_nanousd: Count.optional() };

const RequestAccepted = z.object({
  type: z.literal('request.accepted'),
  ...call,
  sse: z.boolean(),
  body_bytes: Count,
  ...hold,
  ...RequestSize,
  ...Admission,
  /** The client's own retry count (`x-stainless-retry-count`), if it was sent. */
  retry_count: Count.optional(),
  route,
  /** The request that created the batch, where this is a line of one; the lines of a batch have the same. */
  batch: RequestId.optional(),
});

/**
 * The reservation of a running request was extended; `hold` is the new total. Or the request was handed over
 * to the background: any instance may end it, and until then its reservation is charged.
 */
const RequestExtended = z.object({
  type: z.literal('request.extended'),
  ...call,
  ...laterRoute,
  ...hold,
  handed_over: z.literal(true).optional(),
  ...Admission,
});

const EndReasonName = z.enum(Object.keys(END_REASONS) as [EndReason, ...EndReason[]]);
const ending = {
  ...call,
  ...laterRoute,
  end_reason: EndReasonName,
  usage_source: z.enum(Object.keys(USAGE_SOURCES) as [UsageSource, ...UsageSource[]]),
  ...Admission,
};
const RequestSettled = z.object({
  type: z.literal('request.settled'),
  ...ending,
  /** The last attempt's upstream, and the credential that it was sent with. */
  upstream: UpstreamName.optional(),
  credential: Id.optional(),
  /** The HTTP status that the client was given, or 499 when it had left before one was sent. */
  status: Count,
  /** The whole prompt, with the tokens that were read from a cache or written to one. */
  input_tokens: Count,
  cache_read_tokens: Count,
  /** Absent: 0. */
  cache_write_tokens: Count.optional(),
  /** The whole reply, with the reasoning. */
  output_tokens: Count,
  reasoning_tokens: Count,
  /** Classes of tokens and other units that few calls have. */
  usage_details: UsageDetails.optional(),
  /** What the account is charged. Absent where the model has no price. */
  cost_nanousd: Count.optional(),
  /** What all attempts cost the operator, where that is another amount. */
  upstream_cost_nanousd: Count.optional(),
  /** What the provider says that it charges, where it does. */
  stated_cost_nanousd: Count.optional(),
  /** The version of the `model.priced` event that the charge was reckoned with; 0: a built-in price. */
  price_version: Count.optional(),
  /** The plan whose price it was; absent: the provider's. */
  price_plan: PlanName.optional(),
  /** Parts with usage that had no price and are in no cost. */
  unpriced: price.Unpriced.optional(),
  attempt_count: Count,
  /**
   * Each of them, where there was more than one, or where the only one used more than is charged. The usage
   * and the cost of the event are the last one's: it is charged once.
   */
  attempts: z.array(upstream.Attempt).max(upstream.ATTEMPTS_MAX).optional(),
  first_byte_ms: Count.optional(),
  duration_ms: Count,
  /** As the reply has them: the model that answered, why it ended, and how it was served. */
  answered_model: ModelName.optional(),
  finish_reason: ProviderText.optional(),
  service_tier: ProviderText.optional(),
  /** The provider's own id of the request. */
  provider_request: ProviderText.optional(),
});
const RequestAbandoned = z.object({
  type: z.literal('request.abandoned'),
  ...ending,
  /** What stays charged: the usage by the last heartbeat and one heartbeat's worth, or the reservation. */
  ...hold,
});
/**
 * An ended request was corrected, by these amounts. They count at the time of this event. The fields of the
 * call are here once more, so that the correction is grouped and filtered like the call.
 */
const UsageAdjusted = z.object({
  type: z.literal('usage.adjusted'),
  ...call,
  ...laterRoute,
  ...Admission,
  upstream: UpstreamName.optional(),
  status: Count.optional(),
  end_reason: EndReasonName,
  ...CorrectionDeltas,
  ...CorrectionOrigin,
});

export const Event = z.discriminatedUnion('type', [
  account.AccountRegistered,
  account.AccountSuspended,
  account.AccountReinstated,
  account.AccountParentChanged,
  account.AccountToppedUp,
  AccountPlanChanged,
  AccountTermsOverridden,
  key.KeyCreated,
  key.KeyRotated,
  key.KeyRevoked,
  KeyRestricted,
  key.KeyExpired,
  key.KeyRenamed,
  PlanDefined,
  PlanChanged,
  PlanRetired,
  price.ModelPriced,
  upstream.ModelDefined,
  upstream.ModelRetired,
  upstream.UpstreamAdded,
  upstream.UpstreamChanged,
  upstream.UpstreamRemoved,
  upstream.UpstreamCredentialAdded,
  upstream.UpstreamCredentialRemoved,
  member.MemberAdded,
  member.MemberRoleChanged,
  member.MemberRemoved,
  member.MemberPasswordChanged,
  member.MemberTotpChanged,
  member.MemberResetLinkCreated,
  member.InvitationCreated,
  member.InvitationRevoked,
  member.SessionOpened,
  member.SessionClosed,
  member.RegistrationChanged,
  managementKey.ManagementKeyCreated,
  managementKey.ManagementKeyRevoked,
  ...identity.IDENTITY_EVENTS,
  ...workload.WORKLOAD_EVENTS,
  log.LogSignerChanged,
  log.LogEpochStarted,
  log.LogRead,
  QuotaAdjusted,
  attribution.AttributionErased,
  attribution.AttributionKeyDestroyed,
  ReconciliationRecorded,
  sink.SinkConfigured,
  sink.SinkRemoved,
  sink.SinkPaused,
  sink.SinkResumed,
  sink.SinkRewound,
  billing.BillingChanged,
  billing.InvoiceIssued,
  billing.InvoiceCorrected,
  billing.InvoiceCredited,
  RequestAccepted,
  RequestExtended,
  RequestSettled,
  RequestAbandoned,
  RequestRejected,
  UsageAdjusted,
  TokensCounted,
  workload.WorkloadExchanged,
]);
export type Event = z.infer<typeof Event>;
export type EventType = Event['type'];
export type EventOf<T extends EventType> = Extract<Event, { type: T }>;

export type ControlEvent = Extract<Event, { actor: string }>;
export type RequestEvent = Exclude<Event, ControlEvent>;

/** The number that stands for each type in the log. Append only: a number is never reused. */
export const EVENT_CODES = {
  'account.registered': 1,
  'account.suspended': 2,
  'account.reinstated': 3,
  'account.plan_changed': 4,
  'account.terms_overridden': 5,
  'account.parent_changed': 6,
  'account.topped_up': 7,
  'key.created': 10,
  'key.rotated': 11,
  'key.revoked': 12,
  'key.restricted': 13,
  'key.expired': 14,
  'key.renamed': 15,
  'plan.defined': 20,
  'plan.changed': 21,
  'plan.retired': 22,
  'model.priced': 30,
  'model.defined': 31,
  'model.retired': 32,
  'member.added': 40,
  'member.role_changed': 41,
  'member.removed': 42,
  'member.password_changed': 43,
  'member.totp_changed': 44,
  'member.reset_link_created': 45,
  'invitation.created': 50,
  'invitation.revoked': 51,
  'session.opened': 60,
  'session.closed': 61,
  'registration.changed': 70,
  'log.signer_changed': 80,
  'log.epoch_started': 81,
  'log.read': 82,
  'upstream.added': 90,
  'upstream.changed': 91,
  'upstream.removed': 92,
  'upstream.credential_added': 93,
  'upstream.credential_removed': 94,
  'request.accepted': 100,
  'request.settled': 101,
  'request.abandoned': 102,
  'request.extended': 103,
  'request.rejected': 104,
  'quota.adjusted': 1000,
  'usage.adjusted': 1001,
  'tokens.counted': 1002,
  'attribution.erased': 1010,
  'attribution.key_destroyed': 1011,
  'reconciliation.recorded': 1020,
  'sink.configured': 1030,
  'sink.removed': 1031,
  'sink.paused': 1032,
  'sink.resumed': 1033,
  'sink.rewound': 1034,
  'invoice.issued': 1040,
  'invoice.credited': 1041,
  'billing.changed': 1042,
  'invoice.corrected': 1043,
  'management_key.created': 1050,
  'management_key.revoked': 1051,
  'identity_provider.configured': 1060,
  'identity_provider.removed': 1061,
  'sign_in.changed': 1062,
  'workload.configured': 1070,
  'workload.removed': 1071,
  'workload.exchanged': 1072,
} as const satisfies Record<EventType, number>;

export const REQUEST_TYPES = [
  'request.accepted',
  'request.extended',
  'request.settled',
  'request.abandoned',
  'request.rejected',
  'usage.adjusted',
  'tokens.counted',
  'workload.exchanged',
] as const satisfies readonly RequestEvent['type'][];

/** An event as the log has it, with its place there. */
export type Placed<E extends Event = Event> = {
  shard: number;
  position: number;
  /** PostgreSQL's time, the same for all events of a batch. Never decreases along the log. */
  at: Date;
  instance: number;
  event: E;
} & (E extends ControlEvent ? InStream : InNoStream);

/** The stream of a control event's subject, and the event's version in that stream: 1, 2, … */
type InStream = { stream: string; version: number };
type InNoStream = { stream: null; version: null };

export const isControl = (placed: Placed): placed is Placed<ControlEvent> => 'actor' in placed.event;

/** @throws {z.ZodError} when it is of no known type or a field is wrong. */
export function parseEvent(value: unknown): Event {
  return Event.parse(value);
}
