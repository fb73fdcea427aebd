import * as fc from 'fast-check';
import { type ControlEvent, END_REASONS, type Event, type EventOf, type RequestEvent, USAGE_SOURCES } from '#db/events.ts';

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
const special = fc.constantFrom(...characters('"\\{}(),\' \t\n'), 'NULL', '\u00e9', '\u20ac', '\u{1f600}', '\u2028', '\u007f', '\u00a0');
const name = fc
  .array(fc.oneof(special, fc.string({ unit: 'binary', minLength: 1, maxLength: 3 })), { minLength: 1, maxLength: 12 })
  .map((parts) => parts.join('').trim())
  .filter((text) => text !== '' && text.length <= 100);
const modelName = fc.string({
  unit: fc.oneof(fc.constantFrom(...characters('"\\{}(), \'')), fc.integer({ min: 0x20, max: 0x7e }).map((unit) => String.fromCharCode(unit))),
  minLength: 1,
  maxLength: 40,
});
const upstreamName = fc
  .tuple(fc.constantFrom(...characters('az09')), fc.string({ unit: fc.constantFrom(...characters('az09._-')), maxLength: 10 }))
  .map((parts) => parts.join(''));
const actor = fc.constantFrom('command-line', 'first-start', 'member/AbCd1234');
const digest = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const last4 = fc.string({ unit: fc.constantFrom(...BASE62), minLength: 4, maxLength: 4 });
const time = fc
  .date({ min: new Date('2000-01-01T00:00:00Z'), max: new Date('2200-01-01T00:00:00Z'), noInvalidDate: true })
  .map((date) => date.toISOString());
const edge = (max: number): fc.Arbitrary<number> => fc.oneof(fc.nat(1_000), fc.constantFrom(0, 1, max), fc.nat(max));
const int2 = edge(INT2_MAX);
const int4 = edge(INT4_MAX);
const int8 = fc.oneof(int4, fc.constantFrom(2 ** 31, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER), fc.nat(Number.MAX_SAFE_INTEGER));
const one = <T>(value: T): fc.Arbitrary<T> => fc.constant(value);

type Made<T extends Event['type']> = fc.Arbitrary<EventOf<T>>;

const accountRegistered: Made<'account.registered'> = fc.record({ type: one('account.registered' as const), account: id, name, actor });
const accountChanged: Made<'account.suspended' | 'account.reinstated'> = fc.record({
  type: fc.constantFrom('account.suspended' as const, 'account.reinstated' as const),
  account: id,
  actor,
});
const keyCreated: Made<'key.created'> = fc.record(
  { type: one('key.created' as const), account: id, key: id, name, digest, last4, expires_at: time, actor },
  { requiredKeys: ['type', 'account', 'key', 'name', 'digest', 'last4', 'actor'] },
);
const keyRotated: Made<'key.rotated'> = fc.record(
  { type: one('key.rotated' as const), account: id, key: id, digest, last4, overlap_ends_at: time, actor },
  { requiredKeys: ['type', 'account', 'key', 'digest', 'last4', 'actor'] },
);
const keyRevoked: Made<'key.revoked'> = fc.record({ type: one('key.revoked' as const), account: id, key: id, actor });

const requestAccepted: Made<'request.accepted'> = fc.record(
  {
    type: one('request.accepted' as const),
    request,
    account: id,
    key: id,
    model: modelName,
    sse: fc.boolean(),
    body_bytes: int4,
    hold_tokens: int8,
    retry_count: int2,
  },
  { requiredKeys: ['type', 'request', 'account', 'key', 'model', 'sse', 'body_bytes', 'hold_tokens'] },
);
const ending = {
  request,
  account: id,
  key: id,
  model: modelName,
  end_reason: fc.constantFrom(...(Object.keys(END_REASONS) as (keyof typeof END_REASONS)[])),
  usage_source: fc.constantFrom(...(Object.keys(USAGE_SOURCES) as (keyof typeof USAGE_SOURCES)[])),
};
const counts = {
  status: int2,
  input_tokens: int4,
  cached_tokens: int4,
  output_tokens: int4,
  reasoning_tokens: int4,
  attempts: int2,
  duration_ms: int4,
};
const requestSettled: Made<'request.settled'> = fc.record(
  { type: one('request.settled' as const), ...ending, upstream: upstreamName, ...counts, first_byte_ms: int4 },
  { requiredKeys: ['type', 'request', 'account', 'key', 'model', 'end_reason', 'usage_source', ...(Object.keys(counts) as (keyof typeof counts)[])] },
);
const requestAbandoned: Made<'request.abandoned'> = fc.record({ type: one('request.abandoned' as const), ...ending, hold_tokens: int8 });

// Spread, because fast-check makes some objects without a prototype.
export const anyRequestEvent: fc.Arbitrary<RequestEvent> = fc
  .oneof(requestAccepted, requestSettled, requestAbandoned)
  .map((event) => ({ ...event }));
export const anyControlEvent: fc.Arbitrary<ControlEvent> = fc
  .oneof(accountRegistered, accountChanged, keyCreated, keyRotated, keyRevoked)
  .map((event) => ({ ...event }));
export const anyEvent: fc.Arbitrary<Event> = fc.oneof(anyControlEvent, anyRequestEvent);
