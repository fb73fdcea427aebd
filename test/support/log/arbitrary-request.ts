import * as fc from 'fast-check';
import { anyExchange } from './arbitrary-workload.ts';
import { PRICED_PARTS } from '#db/pricing/parts.ts';
import { TAGS_MAX } from '#db/events/attribution-events.ts';
import { END_REASONS, USAGE_SOURCES } from '#db/events/endings.ts';
import type { EventOf, RequestEvent } from '#db/events/events.ts';
import { ACCOUNT_LEVELS } from '#db/events/parts.ts';
import { RELAYED_ROUTES, WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METER_NAMES } from '#db/limits/meters.ts';
import { anyTries, type Made } from '../upstream/arbitrary-upstream.ts';
import { INT4_MAX, id, request, modelName, slug, int2, int4, int8, one, perhaps } from './arbitrary-parts.ts';

/** Events of requests, of every type. */

function anyRejection() {
  return fc.record(
    {
      subject: fc.stringMatching(/^[a-z_]{1,10}\/[0-9A-Za-z/]{1,60}$/),
      meter: fc.constantFrom(...METER_NAMES),
      window: fc.constantFrom(...(Object.keys(WINDOW_KINDS) as WindowKind[])),
      limit: int8,
      needed: int8,
      free: int8,
    },
    { requiredKeys: ['subject', 'meter', 'window', 'limit', 'needed'], noNullPrototype: true },
  );
}

const admission = {
  admitted_minute: int4,
  terms_position: int8,
  parents: fc.array(id, { minLength: 1, maxLength: ACCOUNT_LEVELS - 1 }),
  observed: fc.array(anyRejection(), { minLength: 1, maxLength: 3 }),
};
/** What a reservation follows from. */
const size = { prompt_estimate: int4, max_output_tokens: int4 };
const hold = { hold_tokens: int8, hold_cost_nanousd: int8 };
export const pseudonym = fc.stringMatching(/^[0-9A-Za-z]{16}$/);
const attribution = {
  end_user: pseudonym,
  session: pseudonym,
  tags: fc.array(pseudonym, { minLength: 1, maxLength: TAGS_MAX }),
};
/** Amounts that are added to a figure. */
const signed = (amount: fc.Arbitrary<number>) =>
  fc.tuple(amount, fc.boolean()).map(([value, isAdded]) => (isAdded || value === 0 ? value : -value));
/** Any text: it is in the JSON of the body. */
const anyReason = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 40 })
  .map((text) => text.trim())
  .filter((text) => text !== '' && text.length <= 200);
const call = { request, account: id, key: id, model: modelName, ...attribution };
const anyRoute = fc.constantFrom(...RELAYED_ROUTES);
const providerText = fc.stringMatching(/^[\x20-\x7e]{1,128}$/);
const CALL = ['type', 'request', 'account', 'key', 'model'] as const;
const ending = {
  ...call,
  route: anyRoute,
  ...admission,
  end_reason: fc.constantFrom(...(Object.keys(END_REASONS) as (keyof typeof END_REASONS)[])),
  usage_source: fc.constantFrom(...(Object.keys(USAGE_SOURCES) as (keyof typeof USAGE_SOURCES)[])),
};
const counts = {
  status: int2,
  input_tokens: int4,
  cache_read_tokens: int4,
  output_tokens: int4,
  reasoning_tokens: int4,
  attempt_count: int2,
  duration_ms: int4,
};

export const ANY_REQUEST: Made<RequestEvent> = {
  'request.accepted': fc.record(
    {
      type: one('request.accepted' as const),
      ...call,
      sse: fc.boolean(),
      body_bytes: int4,
      ...hold,
      ...size,
      ...admission,
      retry_count: int2,
      route: anyRoute,
      batch: fc.uuid(),
    },
    { requiredKeys: [...CALL, 'route', 'sse', 'body_bytes', 'hold_tokens'] },
  ),
  'request.extended': fc.record(
    {
      type: one('request.extended' as const),
      ...call,
      route: anyRoute,
      ...hold,
      ...admission,
      handed_over: one(true as const),
    },
    { requiredKeys: [...CALL, 'hold_tokens'] },
  ),
  'request.settled': fc.record(
    {
      type: one('request.settled' as const),
      ...ending,
      upstream: slug,
      ...counts,
      credential: id,
      cache_write_tokens: int4,
      usage_details: perhaps({
        cache_write_1h_tokens: int4,
        audio_input_tokens: int4,
        audio_output_tokens: int4,
        image_input_tokens: int4,
        image_output_tokens: int4,
        web_searches: int4,
        images: int4,
        media_ms: int4,
        characters: int4,
        tool_calls: int4,
      }),
      cost_nanousd: int8,
      upstream_cost_nanousd: int8,
      stated_cost_nanousd: int8,
      price_version: int4,
      first_byte_ms: int4,
      answered_model: modelName,
      finish_reason: providerText,
      service_tier: providerText,
      provider_request: providerText,
      attempts: anyTries(slug, id),
      price_plan: slug,
      unpriced: fc.subarray([...PRICED_PARTS], { minLength: 1 }),
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
  'usage.adjusted': fc.record(
    {
      type: one('usage.adjusted' as const),
      ...call,
      route: anyRoute,
      ...admission,
      upstream: slug,
      status: int2,
      end_reason: ending.end_reason,
      cost_nanousd: signed(int8),
      upstream_cost_nanousd: signed(int8),
      hold_tokens: signed(int8),
      input_tokens: signed(int4),
      cache_read_tokens: signed(int4),
      cache_write_tokens: signed(int4),
      output_tokens: signed(int4),
      reasoning_tokens: signed(int4),
      reference: fc.stringMatching(/^[\x21-\x7e]([\x20-\x7e]{0,20}[\x21-\x7e])?$/),
      reason: anyReason,
      adjusted_by: one('command-line'),
    },
    { requiredKeys: [...CALL, 'end_reason', 'reference', 'reason', 'adjusted_by'] },
  ),
  'tokens.counted': fc.record(
    {
      type: one('tokens.counted' as const),
      ...call,
      route: anyRoute,
      body_bytes: int4,
      upstream: slug,
      usage_source: ending.usage_source,
      input_tokens: int4,
      duration_ms: int4,
    },
    { requiredKeys: [...CALL, 'route', 'body_bytes', 'usage_source', 'input_tokens', 'duration_ms'] },
  ),
  'workload.exchanged': anyExchange,
  'request.rejected': fc.record(
    {
      type: one('request.rejected' as const),
      ...call,
      route: anyRoute,
      body_bytes: int4,
      hold_tokens: int8,
      admitted_minute: int4,
      ...size,
      error_code: fc.constantFrom('model_not_permitted', 'rate_limit_exceeded', 'insufficient_quota'),
      status: fc.constantFrom(403, 429),
      rejected_count: fc.oneof(one(1), fc.integer({ min: 1, max: INT4_MAX })),
    },
    {
      requiredKeys: ['type', 'request', 'account', 'key', 'route', 'error_code', 'status', 'rejected_count'],
    },
  ),
};

const { 'usage.adjusted': correction, ...ANY_CALL } = ANY_REQUEST;
/** Without corrections, which only their own function appends. */
export const anyCallEvent: fc.Arbitrary<RequestEvent> = fc
  .oneof(...Object.values(ANY_CALL))
  .map((event) => ({ ...event }));
export const anyCorrection: fc.Arbitrary<EventOf<'usage.adjusted'>> = correction.map((event) => ({
  ...event,
}));
