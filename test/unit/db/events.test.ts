import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isModelEvent } from '#db/events/subjects.ts';
import { END_REASONS, USAGE_SOURCES } from '#db/events/endings.ts';
import { EVENT_CODES, type Event, parseEvent } from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import { anyControlEvent, anyEvent } from '../../support/log/arbitrary-event.ts';
import { runs } from '../../fuzz/property-runs.ts';

test('every event of the vocabulary is read as what it is', () => {
  fc.assert(
    fc.property(anyEvent, (event) => {
      expect(parseEvent(event)).toStrictEqual(event);
    }),
    runs(175),
  );
});

test('an event without one of its required fields, or with a wrong one, is refused', () => {
  const optional = new Set([
    'expires_at',
    'joins',
    'overlap_ends_at',
    'retry_count',
    'first_byte_ms',
    'attempts',
    'admitted_minute',
    'terms_position',
    'hold_cost_nanousd',
    'cost_nanousd',
    'upstream_cost_nanousd',
    'stated_cost_nanousd',
    'price_version',
    'end_user',
    'session',
    'tags',
    'parents',
    'observed',
    'handed_over',
    'batch',
    'cache_write_tokens',
    'usage_details',
    'answered_model',
    'finish_reason',
    'service_tier',
    'provider_request',
    'prompt_estimate',
    'max_output_tokens',
  ]);
  const optionalIn: Partial<Record<Event['type'], readonly string[]>> = {
    'member.added': ['invitation', 'provider'],
    'key.created': ['workload'],
    'request.settled': ['upstream', 'credential', 'price_plan', 'unpriced', 'route'],
    'request.extended': ['route'],
    'request.abandoned': ['route'],
    'model.priced': ['plan', 'rules'],
    'request.rejected': ['model', 'body_bytes', 'hold_tokens'],
    'quota.adjusted': ['key', 'parent', 'tag'],
    'sink.configured': ['only_account', 'position'],
    'management_key.created': ['account'],
    'management_key.revoked': ['account'],
    'invoice.issued': ['closing_balance_nanousd'],
    'tokens.counted': ['upstream'],
    'usage.adjusted': [
      'route',
      'upstream',
      'status',
      'hold_tokens',
      'input_tokens',
      'cache_read_tokens',
      'output_tokens',
      'reasoning_tokens',
    ],
  };
  const isOptional = ({ type }: Event, field: string): boolean =>
    optional.has(field) || optionalIn[type]?.includes(field) === true;
  /** Wrong values that happen to be right: any text will do, terms that limit nothing, units given back. */
  const isRight = (field: string, wrong: unknown): boolean =>
    (wrong === 'not that' &&
      /^(name|model|last4|source|label|reason|reference|provider|issuer)$/.test(field)) ||
    (typeof wrong === 'object' && /^(terms|claims)$/.test(field)) ||
    (wrong === -1 && /^(amount|(bill|log|charged|unexplained)_nanousd)$/.test(field));
  fc.assert(
    fc.property(anyEvent, (event) => {
      const fields = Object.keys(event).filter((field) => !isOptional(event, field));
      for (const field of fields)
        for (const wrong of [undefined, -1, {}, 'not that'])
          if (!isRight(field, wrong))
            expect(
              () => parseEvent({ ...event, [field]: wrong }),
              `${field}: ${JSON.stringify(wrong)}`,
            ).toThrow();
    }),
    runs(175),
  );
});

test('a field that no schema knows is not taken in', () => {
  fc.assert(
    fc.property(anyEvent, (event) => {
      expect(parseEvent({ ...event, prompt: 'canary' })).toStrictEqual(event);
    }),
  );
});

test('a term that no schema knows is refused: a misspelt limit must not be none', () => {
  const event = {
    type: 'plan.defined',
    plan: 'basic',
    terms: { request_per_minute: 1 },
    actor: 'command-line',
  };
  expect(() => parseEvent(event)).toThrow('request_per_minute');
  expect(() => parseEvent({ ...event, terms: { networks: ['10.0.0.0/8'] } })).toThrow('networks');
  expect(() => parseEvent({ ...event, terms: { requests_per_minute: 1 } })).not.toThrow();
});

test.each<unknown>([null, 'account.registered', {}, { type: 'account.deleted' }, []])(
  '%j is no event',
  (value) => {
    expect(() => parseEvent(value)).toThrow();
  },
);

const ofAccount = new Set(['quota', 'attribution']);

/** Subjects whose events have a name of their own within the one stream. */
const namedApart = new Set(['invoice', 'reconciliation']);
/** Subjects with one stream. */
const single = new Set(['registration', 'sign_in', 'log', 'billing', 'invoice', 'reconciliation']);

test('control events belong to the stream of their subject', () => {
  fc.assert(
    fc.property(anyControlEvent, (event) => {
      const subject = event.type.split('.')[0] as string;
      const id = (event as unknown as Record<string, string>)[
        subject === 'identity_provider'
          ? 'provider'
          : ofAccount.has(subject)
            ? 'account'
            : namedApart.has(subject)
              ? ''
              : subject
      ];
      // Where a model's calls go is another stream than what they cost.
      const stream = isModelEvent(event) ? 'dispatch' : subject;
      // There is one registration and one log, and one stream of each; who has read the log is a stream of
      // its own.
      const only = event.type === 'log.read' ? 'log/readings' : subject;
      const ofPlan = event.type === 'model.priced' && event.plan !== undefined;
      if (ofPlan) expect(streamOf(event)).toBe(`plan_price/${event.plan}/${event.model}`);
      else expect(streamOf(event)).toBe(id === undefined ? only : `${stream}/${id}`);
      expect(id === undefined).toBe(single.has(subject));
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
      'account.plan_changed': 4,
      'account.terms_overridden': 5,
      'account.parent_changed': 6,
      'account.topped_up': 7,
      'key.created': 10,
      'key.rotated': 11,
      'key.revoked': 12,
      'key.restricted': 13,
      'key.expired': 14,
      'plan.defined': 20,
      'plan.changed': 21,
      'plan.retired': 22,
      'model.priced': 30,
      'model.defined': 31,
      'model.retired': 32,
      'key.renamed': 15,
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
      'management_key.created': 1050,
      'management_key.revoked': 1051,
      'sink.removed': 1031,
      'sink.paused': 1032,
      'sink.resumed': 1033,
      'sink.rewound': 1034,
      'invoice.issued': 1040,
      'invoice.credited': 1041,
      'identity_provider.configured': 1060,
      'identity_provider.removed': 1061,
      'sign_in.changed': 1062,
      'workload.configured': 1070,
      'workload.removed': 1071,
      'workload.exchanged': 1072,
      'billing.changed': 1042,
      'invoice.corrected': 1043,
    } satisfies Record<Event['type'], number>);
    expect(END_REASONS).toEqual({
      completed: 1,
      client_disconnected: 2,
      upstream_disconnected: 3,
      upstream_error: 4,
      upstream_rejected: 5,
      upstream_unreachable: 6,
      timed_out: 7,
      service_unavailable: 8,
      abandoned: 9,
      internal_error: 10,
      access_revoked: 11,
      quota_exceeded: 12,
    });
    expect(USAGE_SOURCES).toEqual({ provider: 1, counted: 2, estimated: 3, none: 4, implausible: 5 });
  });
});
