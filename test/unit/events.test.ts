import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { END_REASONS, EVENT_CODES, type Event, parseEvent, streamOf, USAGE_SOURCES } from '#db/events.ts';
import { anyControlEvent, anyEvent } from '../support/event-made.ts';

test('every event of the vocabulary is read as what it is', () => {
  fc.assert(
    fc.property(anyEvent, (event) => {
      expect(parseEvent(event)).toStrictEqual(event);
    }),
    { numRuns: 500 },
  );
});

test('an event without one of its required fields, or with a wrong one, is refused', () => {
  const OPTIONAL = ['expires_at', 'overlap_ends_at', 'retry_count', 'upstream', 'first_byte_ms'];
  fc.assert(
    fc.property(anyEvent, fc.nat(), fc.constantFrom(undefined, -1, {}, 'not that'), (event, choice, wrong) => {
      const fields = Object.keys(event).filter((field) => !OPTIONAL.includes(field) && !(wrong === 'not that' && /^(name|model|last4)$/.test(field)));
      const field = fields[choice % fields.length] as string;
      expect(() => parseEvent({ ...event, [field]: wrong })).toThrow();
    }),
    { numRuns: 500 },
  );
});

test('a field that no schema knows is not taken in', () => {
  fc.assert(
    fc.property(anyEvent, (event) => {
      expect(parseEvent({ ...event, prompt: 'canary' })).toStrictEqual(event);
    }),
  );
});

test.each<unknown>([null, 'account.registered', {}, { type: 'account.deleted' }, []])('%j is no event', (value) => {
  expect(() => parseEvent(value)).toThrow();
});

test('control events belong to the stream of their subject', () => {
  fc.assert(
    fc.property(anyControlEvent, (event) => {
      expect(streamOf(event)).toBe('key' in event ? `key/${event.key}` : `account/${event.account}`);
    }),
  );
});

describe('the numbers that the log stores', () => {
  test('never change their meaning', () => {
    // What has been written can't be rewritten: a change here is a change of history.
    expect(EVENT_CODES).toEqual({
      'account.registered': 1,
      'account.suspended': 2,
      'account.reinstated': 3,
      'key.created': 10,
      'key.rotated': 11,
      'key.revoked': 12,
      'request.accepted': 100,
      'request.settled': 101,
      'request.abandoned': 102,
    } satisfies Record<Event['type'], number>);
    expect(END_REASONS).toEqual({
      completed: 1,
      client_gone: 2,
      upstream_cut: 3,
      upstream_error: 4,
      upstream_refused: 5,
      upstream_unreachable: 6,
      timed_out: 7,
      shed: 8,
      abandoned: 9,
      internal_error: 10,
    });
    expect(USAGE_SOURCES).toEqual({ provider: 1, counted: 2, estimated: 3, none: 4 });
  });
});
