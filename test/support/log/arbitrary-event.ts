import * as fc from 'fast-check';
import { ATTRIBUTION_KIND_NAMES } from '#db/attribution/value.ts';
import { MANAGEMENT_SCOPES } from '#db/events/management-scopes.ts';
import { REGISTRATION_POLICIES } from '#db/events/parts.ts';
import {
  type ControlEvent,
  type Event,
  type KeyTerms,
  type PlanTerms,
  Reads,
  type RequestEvent,
} from '#db/events/events.ts';
import { SINK_KINDS } from '#db/spend/sink-kinds.ts';
import { QUOTA_WINDOWS, RATE_FIELDS, ROUTES } from '#db/limits/limits.ts';
import { QUOTA_METERS } from '#db/limits/meters.ts';
import { LOG_READINGS } from '#db/events/log-events.ts';
import { DIFFERENCE_CLASSES } from '#db/reconcile/classes.ts';
import { MARKUP_MAX, MARKUP_MIN } from '#db/pricing/parts.ts';
import { type Made, madeOfUpstreams } from '../upstream/arbitrary-upstream.ts';
import {
  INT4_MAX,
  id,
  name,
  modelName,
  slug,
  actor,
  role,
  digest,
  last4,
  time,
  int4,
  int8,
  one,
  perhaps,
  few,
} from './arbitrary-parts.ts';
import { BILLING } from './arbitrary-billing.ts';
import { IDENTITY } from './arbitrary-identity.ts';
import { WORKLOADS } from './arbitrary-workload.ts';
import { anyRate, anyRule } from './arbitrary-price.ts';
import { ANY_REQUEST, pseudonym } from './arbitrary-request.ts';

/**
 * Events of every type with every kind of value that the vocabulary allows: names with quotes,
 * backslashes, braces and any script, numbers up to what their columns hold, optional fields there
 * or not. What survives with these survives with what people write.
 */

const quotas = fc.uniqueArray(
  fc.record(
    {
      meter: fc.constantFrom('requests' as const, 'tokens' as const, 'cost_nanousd' as const),
      window: fc.constantFrom('hour' as const, 'day' as const, 'week' as const, 'month' as const),
      limit: int8,
      enforcement: fc.constantFrom('soft' as const, 'hard' as const, 'observe' as const),
    },
    { noNullPrototype: true },
  ),
  { maxLength: 12, selector: ({ meter, window }) => `${meter} ${window}` },
);
const terms = {
  models: few(modelName),
  routes: few(fc.constantFrom(...ROUTES)),
  origins: few(
    fc.constantFrom(
      'none',
      'https://app.example.com',
      'https://*.example.com',
      'http://localhost:3000',
      'https://[2001:db8::1]:8443',
    ),
  ),
  observe: fc.subarray([...RATE_FIELDS]),
  requests_per_minute: int8,
  tokens_per_minute: int8,
  concurrent_requests: fc.nat(10_000),
  quotas,
  reply_tokens_max: fc.integer({ min: 1, max: 10_000_000 }),
};
const label = fc.constantFrom('app', 'équipe:été', 'x'.repeat(256));
const labels = fc.array(label, { minLength: 1, maxLength: 8 });
const attributed = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<'required' | { fixed: T }> =>
  fc.oneof(fc.constant('required' as const), fc.record({ fixed: value }, { noNullPrototype: true }));
export const anyPlanTerms: fc.Arbitrary<PlanTerms> = perhaps({
  ...terms,
  markup: fc.integer({ min: MARKUP_MIN, max: MARKUP_MAX }),
  unpriced_models: fc.constantFrom('reject' as const, 'free' as const),
  keep_replies: fc.boolean(),
});
export const anyKeyTerms: fc.Arbitrary<KeyTerms> = perhaps({
  ...terms,
  networks: few(fc.oneof(fc.ipV4(), fc.constantFrom('10.0.0.0/8', '2001:db8::/32', '::1', '192.0.2.7/32'))),
  reads: fc.constantFrom(...Reads.options),
  attribution: perhaps({ end_user: attributed(label), session: attributed(label), tags: attributed(labels) }),
});
const windows = fc.constantFrom('keep' as const, 'reset' as const);

const UPSTREAM = madeOfUpstreams({ actor, id, slug, modelName });
const CONTROL: Made<ControlEvent> = {
  'account.registered': fc.record({ type: one('account.registered' as const), account: id, name, actor }),
  'account.suspended': fc.record({ type: one('account.suspended' as const), account: id, actor }),
  'account.reinstated': fc.record({ type: one('account.reinstated' as const), account: id, actor }),
  'account.parent_changed': fc.record({
    type: one('account.parent_changed' as const),
    account: id,
    parent: fc.option(id),
    actor,
  }),
  'account.topped_up': fc.record({
    type: one('account.topped_up' as const),
    account: id,
    amount_nanousd: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    reference: name,
    actor,
  }),
  'account.plan_changed': fc.record({
    type: one('account.plan_changed' as const),
    account: id,
    plan: fc.option(slug),
    windows,
    actor,
  }),
  'account.terms_overridden': fc.record({
    type: one('account.terms_overridden' as const),
    account: id,
    terms: anyPlanTerms,
    windows,
    actor,
  }),
  'key.created': fc.record(
    { type: one('key.created' as const), account: id, key: id, name, digest, last4, expires_at: time, actor },
    { requiredKeys: ['type', 'account', 'key', 'name', 'digest', 'last4', 'actor'] },
  ),
  'key.rotated': fc.record(
    { type: one('key.rotated' as const), account: id, key: id, digest, last4, overlap_ends_at: time, actor },
    { requiredKeys: ['type', 'account', 'key', 'digest', 'last4', 'actor'] },
  ),
  'key.revoked': fc.record({ type: one('key.revoked' as const), account: id, key: id, actor }),
  'key.expired': fc.record({ type: one('key.expired' as const), account: id, key: id, actor }),
  'key.restricted': fc.record(
    {
      type: one('key.restricted' as const),
      account: id,
      key: id,
      terms: anyKeyTerms,
      expires_at: fc.option(time),
      windows,
      actor,
    },
    { requiredKeys: ['type', 'account', 'key', 'terms', 'windows', 'actor'] },
  ),
  'key.renamed': fc.record({ type: one('key.renamed' as const), account: id, key: id, name, actor }),
  'member.added': fc.record(
    {
      type: one('member.added' as const),
      member: id,
      account: id,
      role,
      invitation: id,
      provider: fc.constantFrom('acme', 'globex-2'),
      actor,
    },
    { requiredKeys: ['type', 'member', 'account', 'role', 'actor'] },
  ),
  'member.role_changed': fc.record({
    type: one('member.role_changed' as const),
    member: id,
    account: id,
    role,
    actor,
  }),
  'member.removed': fc.record({ type: one('member.removed' as const), member: id, account: id, actor }),
  'member.password_changed': fc.record({
    type: one('member.password_changed' as const),
    member: id,
    account: id,
    actor,
  }),
  'member.totp_changed': fc.record({
    type: one('member.totp_changed' as const),
    member: id,
    account: id,
    enabled: fc.boolean(),
    actor,
  }),
  'member.reset_link_created': fc.record({
    type: one('member.reset_link_created' as const),
    member: id,
    account: id,
    actor,
  }),
  'invitation.created': fc.record(
    { type: one('invitation.created' as const), invitation: id, joins: id, role, expires_at: time, actor },
    { requiredKeys: ['type', 'invitation', 'role', 'expires_at', 'actor'] },
  ),
  'invitation.revoked': fc.record({ type: one('invitation.revoked' as const), invitation: id, actor }),
  'session.opened': fc.record({
    type: one('session.opened' as const),
    session: id,
    member: id,
    account: id,
    actor,
  }),
  'session.closed': fc.record({
    type: one('session.closed' as const),
    session: id,
    member: id,
    account: id,
    actor,
  }),
  ...IDENTITY,
  ...WORKLOADS,
  'registration.changed': fc.record({
    type: one('registration.changed' as const),
    policy: fc.constantFrom(...REGISTRATION_POLICIES),
    plan: fc.option(slug),
    actor,
  }),
  'log.signer_changed': fc.record({
    type: one('log.signer_changed' as const),
    verifier_key: one(
      'daybook/0199aaaa-0000-7000-8000-000000000000+0123abcd+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    ),
    actor,
  }),
  'log.epoch_started': fc.record({
    type: one('log.epoch_started' as const),
    epoch: fc.integer({ min: 2, max: INT4_MAX }),
    lost_size: int8,
    lost_root: digest,
    actor,
  }),
  'log.read': fc.record({
    type: one('log.read' as const),
    what: fc.constantFrom(...LOG_READINGS),
    from_position: int8,
    to_position: int8,
    actor,
  }),
  'plan.defined': fc.record({ type: one('plan.defined' as const), plan: slug, terms: anyPlanTerms, actor }),
  'plan.changed': fc.record({
    type: one('plan.changed' as const),
    plan: slug,
    terms: anyPlanTerms,
    windows,
    actor,
  }),
  'plan.retired': fc.record({ type: one('plan.retired' as const), plan: slug, actor }),
  'model.priced': fc.record(
    {
      type: one('model.priced' as const),
      model: modelName,
      plan: slug,
      base: anyRate,
      rules: fc.array(anyRule, { minLength: 1, maxLength: 3 }),
      source: fc.constantFrom('manual', 'genai-prices 0.1.8'),
      actor,
    },
    { requiredKeys: ['type', 'model', 'base', 'source', 'actor'], noNullPrototype: true },
  ),
  'attribution.erased': fc.record({
    type: one('attribution.erased' as const),
    account: id,
    kind: fc.constantFrom(...ATTRIBUTION_KIND_NAMES),
    pseudonym,
    actor,
  }),
  'attribution.key_destroyed': fc.record({
    type: one('attribution.key_destroyed' as const),
    account: id,
    actor,
  }),
  'sink.configured': fc.record(
    {
      type: one('sink.configured' as const),
      sink: slug,
      kind: fc.constantFrom(...SINK_KINDS),
      only_account: id,
      position: int8,
      actor,
    },
    { requiredKeys: ['type', 'sink', 'kind', 'actor'], noNullPrototype: true },
  ),
  'management_key.created': fc.record(
    {
      type: one('management_key.created' as const),
      management_key: id,
      name,
      digest,
      last4: fc.constant('abcd'),
      scopes: fc.uniqueArray(fc.constantFrom(...MANAGEMENT_SCOPES), { minLength: 1 }),
      account: id,
      expires_at: time,
      actor,
    },
    {
      requiredKeys: ['type', 'management_key', 'name', 'digest', 'last4', 'scopes', 'actor'],
      noNullPrototype: true,
    },
  ),
  'management_key.revoked': fc.record(
    { type: one('management_key.revoked' as const), management_key: id, account: id, actor },
    { requiredKeys: ['type', 'management_key', 'actor'], noNullPrototype: true },
  ),
  'sink.removed': fc.record({ type: one('sink.removed' as const), sink: slug, actor }),
  'sink.paused': fc.record({ type: one('sink.paused' as const), sink: slug, actor }),
  'sink.resumed': fc.record({ type: one('sink.resumed' as const), sink: slug, actor }),
  'sink.rewound': fc.record({
    type: one('sink.rewound' as const),
    sink: slug,
    from_position: int8,
    position: int8,
    actor,
  }),
  ...BILLING,
  'reconciliation.recorded': fc.record({
    type: one('reconciliation.recorded' as const),
    reconciliation: id,
    provider: fc.constantFrom('openai', 'anthropic'),
    from: time,
    to: time,
    bill_digest: digest,
    up_to_position: int8,
    tolerance_nanousd: int8,
    tolerance_ppm: int8,
    bill_nanousd: int8,
    log_nanousd: int8,
    charged_nanousd: int8,
    unexplained_nanousd: int8,
    differences: fc.array(
      fc.record(
        { class: fc.constantFrom(...DIFFERENCE_CLASSES), count: int8, amount_nanousd: int8 },
        { noNullPrototype: true },
      ),
      { maxLength: 3 },
    ),
    report_digest: digest,
    actor,
  }),
  'quota.adjusted': fc.record(
    {
      type: one('quota.adjusted' as const),
      account: id,
      key: id,
      parent: id,
      end_user: fc.stringMatching(/^[0-9A-Za-z]{16}$/),
      meter: fc.constantFrom(...QUOTA_METERS),
      amount: fc
        .oneof(
          int8,
          int8.map((units) => -units),
        )
        .map((units) => (units === 0 ? 1 : units)),
      window: fc.constantFrom(...QUOTA_WINDOWS),
      window_start: int4,
      reset_position: int8,
      reason: name,
      actor,
    },
    {
      requiredKeys: [
        'type',
        'account',
        'meter',
        'amount',
        'window',
        'window_start',
        'reset_position',
        'reason',
        'actor',
      ],
    },
  ),
  ...UPSTREAM,
};

// Spread, because fast-check makes some objects without a prototype.
export const anyRequestEvent: fc.Arbitrary<RequestEvent> = fc
  .oneof(...Object.values(ANY_REQUEST))
  .map((event) => ({ ...event }));
export const anyControlEvent: fc.Arbitrary<ControlEvent> = fc
  .oneof(...Object.values(CONTROL))
  .map((event) => ({ ...event }));
export const anyEvent: fc.Arbitrary<Event> = fc.oneof(anyControlEvent, anyRequestEvent);
