import * as fc from 'fast-check';
import { REGISTRATION_POLICIES, ROLES } from '#db/events/parts.ts';
import {
  type ControlEvent,
  END_REASONS,
  type Event,
  type KeyTerms,
  type PlanTerms,
  Reads,
  type RequestEvent,
  USAGE_SOURCES,
} from '#db/events/events.ts';
import { QUOTA_WINDOWS, RELAYED_ROUTES, ROUTES } from '#db/limits/limits.ts';
import { QUOTA_METERS } from '#db/limits/meters.ts';
import { LOG_READINGS } from '#db/events/log-events.ts';
import { PRICE_MAX } from '#db/money.ts';
import { anyTries, type Made, madeOfUpstreams } from '../upstream/arbitrary-upstream.ts';
import { anyCharacter } from '../arbitrary-character.ts';

/**
 * Events of every type with every kind of value that the vocabulary allows: names with quotes,
 * backslashes, braces and any script, numbers up to what their columns hold, optional fields there
 * or not. What survives with these survives with what people write.
 */

const INT2_MAX = 2 ** 15 - 1;
const INT4_MAX = 2 ** 31 - 1;

const characters = (text: string): string[] => text.split('');
const BASE62 = characters('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz');

const id = fc.string({ unit: fc.constantFrom(...BASE62), minLength: 8, maxLength: 8 });
const request = fc.uuid({ version: 7 });
/** What Postgres' array and composite texts, and JSON, treat specially comes up often. */
const special = fc.constantFrom(
  ...characters('"\\{}(),\' \t\n'),
  'NULL',
  '\u00e9',
  '\u20ac',
  '\u{1f600}',
  '\u2028',
  '\u007f',
  '\u00a0',
);
const name = fc
  .array(fc.oneof(special, fc.string({ unit: anyCharacter, minLength: 1, maxLength: 3 })), {
    minLength: 1,
    maxLength: 12,
  })
  .map((parts) => parts.join('').trim())
  .filter((text) => text !== '' && text.length <= 100);
const modelName = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...characters('"\\{}(), \'')),
    fc.integer({ min: 0x20, max: 0x7e }).map((unit) => String.fromCharCode(unit)),
  ),
  minLength: 1,
  maxLength: 40,
});
/** The names of upstreams and plans. */
const slug = fc
  .tuple(
    fc.constantFrom(...characters('az09')),
    fc.string({ unit: fc.constantFrom(...characters('az09._-')), maxLength: 10 }),
  )
  .map((parts) => parts.join(''));
const actor = fc.constantFrom('command-line', 'first-start', 'worker', 'member/AbCd1234');
const role = fc.constantFrom(...ROLES);
const digest = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const last4 = fc.string({ unit: fc.constantFrom(...BASE62), minLength: 4, maxLength: 4 });
const time = fc
  .date({ min: new Date('2000-01-01T00:00:00Z'), max: new Date('2200-01-01T00:00:00Z'), noInvalidDate: true })
  .map((date) => date.toISOString());
const edge = (max: number): fc.Arbitrary<number> =>
  fc.oneof(fc.nat(1_000), fc.constantFrom(0, 1, max), fc.nat(max));
const int2 = edge(INT2_MAX);
const int4 = edge(INT4_MAX);
const int8 = fc.oneof(
  int4,
  fc.constantFrom(2 ** 31, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER),
  fc.nat(Number.MAX_SAFE_INTEGER),
);
const one = <T>(value: T): fc.Arbitrary<T> => fc.constant(value);

/** All of it may be there or not. Nested objects are compared with what JSON makes: with a prototype. */
const perhaps = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<Partial<T>> =>
  fc.record(model, { requiredKeys: [], noNullPrototype: true }) as fc.Arbitrary<Partial<T>>;
const few = <T>(item: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(item, { maxLength: 4 });

const quotas = fc.uniqueArray(
  fc.record(
    {
      meter: fc.constantFrom('requests' as const, 'tokens' as const, 'cost_microusd' as const),
      window: fc.constantFrom('hour' as const, 'day' as const, 'week' as const, 'month' as const),
      limit: int8,
      enforcement: fc.constantFrom('soft' as const, 'hard' as const),
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
  requests_per_minute: int8,
  tokens_per_minute: int8,
  concurrent_requests: fc.nat(10_000),
  quotas,
  reply_tokens_max: fc.integer({ min: 1, max: 10_000_000 }),
};
export const anyPlanTerms: fc.Arbitrary<PlanTerms> = perhaps(terms);
export const anyKeyTerms: fc.Arbitrary<KeyTerms> = perhaps({
  ...terms,
  networks: few(fc.oneof(fc.ipV4(), fc.constantFrom('10.0.0.0/8', '2001:db8::/32', '::1', '192.0.2.7/32'))),
  reads: fc.constantFrom(...Reads.options),
});
const windows = fc.constantFrom('keep' as const, 'reset' as const);
const price = fc.oneof(fc.nat(PRICE_MAX), fc.constantFrom(0, PRICE_MAX));

const admission = { admitted_minute: int4, terms_position: int8 };
const hold = { hold_tokens: int8, hold_cost_microusd: int8 };
const call = { request, account: id, key: id, model: modelName };
const CALL = ['type', 'request', 'account', 'key', 'model'] as const;
const ending = {
  ...call,
  ...admission,
  end_reason: fc.constantFrom(...(Object.keys(END_REASONS) as (keyof typeof END_REASONS)[])),
  usage_source: fc.constantFrom(...(Object.keys(USAGE_SOURCES) as (keyof typeof USAGE_SOURCES)[])),
};
const counts = {
  status: int2,
  input_tokens: int4,
  cached_tokens: int4,
  output_tokens: int4,
  reasoning_tokens: int4,
  attempt_count: int2,
  duration_ms: int4,
};

const UPSTREAM = madeOfUpstreams({ actor, id, slug, modelName });
const CONTROL: Made<ControlEvent> = {
  'account.registered': fc.record({ type: one('account.registered' as const), account: id, name, actor }),
  'account.suspended': fc.record({ type: one('account.suspended' as const), account: id, actor }),
  'account.reinstated': fc.record({ type: one('account.reinstated' as const), account: id, actor }),
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
    { type: one('member.added' as const), member: id, account: id, role, invitation: id, actor },
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
  'model.priced': fc.record({
    type: one('model.priced' as const),
    model: modelName,
    prices: fc.record(
      { input: price, cached_input: price, output: price, reasoning: price },
      { noNullPrototype: true },
    ),
    source: fc.constantFrom('manual', 'genai-prices 0.1.8'),
    actor,
  }),
  'usage.adjusted': fc.record(
    {
      type: one('usage.adjusted' as const),
      account: id,
      key: id,
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
      corrects: request,
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

const REQUEST: Made<RequestEvent> = {
  'request.accepted': fc.record(
    {
      type: one('request.accepted' as const),
      ...call,
      sse: fc.boolean(),
      body_bytes: int4,
      ...hold,
      ...admission,
      retry_count: int2,
      route: fc.constantFrom(...RELAYED_ROUTES),
    },
    { requiredKeys: [...CALL, 'sse', 'body_bytes', 'hold_tokens'] },
  ),
  'request.extended': fc.record(
    { type: one('request.extended' as const), ...call, ...hold, ...admission },
    { requiredKeys: [...CALL, 'hold_tokens'] },
  ),
  'request.settled': fc.record(
    {
      type: one('request.settled' as const),
      ...ending,
      upstream: slug,
      ...counts,
      cost_microusd: int8,
      price_version: int4,
      first_byte_ms: int4,
      attempts: anyTries(slug, id),
    },
    {
      requiredKeys: [
        ...CALL,
        'end_reason',
        'usage_source',
        ...(Object.keys(counts) as (keyof typeof counts)[]),
      ],
    },
  ),
  'request.abandoned': fc.record(
    { type: one('request.abandoned' as const), ...ending, ...hold },
    { requiredKeys: [...CALL, 'end_reason', 'usage_source', 'hold_tokens'] },
  ),
  'request.rejected': fc.record({
    type: one('request.rejected' as const),
    request,
    account: id,
    key: id,
    error_code: fc.constantFrom('model_not_permitted', 'rate_limit_exceeded', 'insufficient_quota'),
    status: fc.constantFrom(403, 429),
    rejected_count: fc.oneof(one(1), fc.integer({ min: 1, max: INT4_MAX })),
  }),
};

// Spread, because fast-check makes some objects without a prototype.
export const anyRequestEvent: fc.Arbitrary<RequestEvent> = fc
  .oneof(...Object.values(REQUEST))
  .map((event) => ({ ...event }));
export const anyControlEvent: fc.Arbitrary<ControlEvent> = fc
  .oneof(...Object.values(CONTROL))
  .map((event) => ({ ...event }));
export const anyEvent: fc.Arbitrary<Event> = fc.oneof(anyControlEvent, anyRequestEvent);
