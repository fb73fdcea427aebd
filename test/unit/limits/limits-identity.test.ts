import { describe, expect, test } from 'vitest';
import {
  type ControlEvent,
  type Event,
  type EventOf,
  type KeyTerms,
  type Placed,
  type PlanTerms,
} from '#db/events/events.ts';
import { placeEvent } from '#db/log/read.ts';
import { streamOf } from '#db/events/streams.ts';
import { checkLimits } from '../../support/identity/limits-identity.ts';
import { accepted, registered, settled } from '../../support/log/log-writer.ts';

const ACCOUNT = 'Account1';
const actor = 'command-line';
const T0 = Date.parse('2026-11-21T05:06:00Z');
const MINUTE = T0 / 60_000;

/** A log of these events, half a second apart unless a place in time is given. */
function logOf(events: readonly (Event | { at: number })[]): Placed[] {
  const placed: Placed[] = [];
  let atMs = T0;
  for (const event of events) {
    if ('at' in event) {
      atMs = event.at;
      continue;
    }
    const stream = 'actor' in event ? streamOf(event) : null;
    const read = { shard: 0, position: placed.length + 1, at: new Date((atMs += 10)), instance: 1, event };
    placed.push(placeEvent(read, stream, stream === null ? null : 1));
  }
  return placed;
}

/** Positions 1 to 4 of each log: an account with a key on a plan. */
function setup(terms: PlanTerms): ControlEvent[] {
  return [
    registered(ACCOUNT, 'acme'),
    {
      type: 'key.created',
      actor,
      account: ACCOUNT,
      key: 'Key00001',
      name: 'k',
      digest: 'a'.repeat(64),
      last4: 'abcd',
    },
    { type: 'plan.defined', actor, plan: 'p', terms },
    { type: 'account.plan_changed', actor, account: ACCOUNT, plan: 'p', windows: 'keep' },
  ];
}

const quota = (
  limit: number,
  enforcement: 'hard' | 'soft' = 'hard',
  meter: 'tokens' | 'cost_nanousd' = 'tokens',
) => ({ meter, window: 'day' as const, limit, enforcement });
const call = (changes: Partial<EventOf<'request.accepted'>> = {}): EventOf<'request.accepted'> =>
  accepted({
    admitted_minute: MINUTE,
    terms_position: 4,
    hold_tokens: 60,
    hold_cost_nanousd: 0,
    ...changes,
  });
const end = (
  one: EventOf<'request.accepted'>,
  tokens: number,
  changes: Partial<EventOf<'request.settled'>> = {},
): EventOf<'request.settled'> => settled(one, { input_tokens: 0, output_tokens: tokens, ...changes });
const grown = (
  { request, account, key, model }: EventOf<'request.accepted'>,
  tokens: number,
): EventOf<'request.extended'> => ({
  type: 'request.extended',
  request,
  account,
  key,
  model,
  hold_tokens: tokens,
});
const abandoned = ({
  request,
  account,
  key,
  model,
  hold_tokens,
}: EventOf<'request.accepted'>): EventOf<'request.abandoned'> => ({
  type: 'request.abandoned',
  request,
  account,
  key,
  model,
  hold_tokens,
  end_reason: 'abandoned',
  usage_source: 'estimated',
});
const changed = (terms: PlanTerms, windows: 'keep' | 'reset' = 'keep'): ControlEvent => ({
  type: 'plan.changed',
  actor,
  plan: 'p',
  terms,
  windows,
});
const restricted = (terms: KeyTerms): ControlEvent => ({
  type: 'key.restricted',
  actor,
  account: ACCOUNT,
  key: 'Key00001',
  terms,
  windows: 'keep',
});

const [one, two, three] = [call(), call(), call()];
const verdict = (...events: Parameters<typeof logOf>[0]) =>
  checkLimits(logOf(events)).map(({ rule, position, message }) => `${position} ${rule}: ${message}`);

describe('a consistent log has no violation', () => {
  test.each<[string, (Event | { at: number })[]]>([
    [
      'holds and what is settled just fill the quota',
      [...setup({ quotas: [quota(120)] }), one, two, end(one, 60), end(two, 60)],
    ],
    [
      'what is not used is free for others',
      [...setup({ quotas: [quota(120)] }), one, two, end(one, 0), three, end(two, 60), end(three, 60)],
    ],
    [
      'a limit of calls at once',
      [...setup({ concurrent_requests: 1 }), one, end(one, 60), two, end(two, 60)],
    ],
    [
      'each minute has its own',
      [
        ...setup({ requests_per_minute: 1 }),
        one,
        end(one, 9),
        { at: T0 + 60_000 },
        call({ ...two, admitted_minute: MINUTE + 1 }),
        end(two, 9),
      ],
    ],
    [
      'a soft limit within the overdraft',
      [
        ...setup({ concurrent_requests: 1, reply_tokens_max: 100, quotas: [quota(60, 'soft')] }),
        one,
        end(one, 160),
      ],
    ],
    [
      'a higher cap that not all servers know of',
      [
        ...setup({ quotas: [quota(60)] }),
        changed({ quotas: [quota(180)] }),
        call({ ...one, terms_position: 5 }),
        call({ ...two, terms_position: 5 }),
        three,
        end(one, 60),
        end(two, 60),
        end(three, 60),
      ],
    ],
    [
      'windows that begin anew',
      [
        ...setup({ quotas: [quota(60)] }),
        one,
        end(one, 60),
        changed({ quotas: [quota(60)] }, 'reset'),
        call({ ...two, terms_position: 7 }),
        end(two, 60),
      ],
    ],
    [
      'a hold that grows when its minute is over',
      [
        ...setup({ tokens_per_minute: 60, concurrent_requests: 1, reply_tokens_max: 1 }),
        one,
        { at: T0 + 61_000 },
        grown(one, 120),
        end(one, 60),
      ],
    ],
    ['no plan, no limit', [registered(ACCOUNT, 'acme'), call({ ...one, terms_position: 0 }), end(one, 999)]],
    [
      'calls from before there were limits',
      [...setup({ quotas: [quota(1)] }), accepted({ request: one.request }), end(one, 999)],
    ],
  ])('%s', (_name, events) => {
    expect(verdict(...events)).toEqual([]);
  });
});

describe('a violation is found when', () => {
  test('reservations exceed a hard quota', () => {
    expect(verdict(...setup({ quotas: [quota(119)] }), one, two, end(one, 0), end(two, 0))).toEqual([
      expect.stringMatching(/^6 limit: tokens of account.*0 settled and 120 held exceed 119$/),
    ]);
  });

  test('settled usage exceeds a hard quota', () => {
    expect(verdict(...setup({ quotas: [quota(60)] }), one, end(one, 61))).toEqual([
      expect.stringContaining('6 limit: tokens'),
    ]);
  });

  test('others spend the reservation of an abandoned request', () => {
    expect(verdict(...setup({ quotas: [quota(100)] }), one, abandoned(one), two, end(two, 0))).toEqual([
      expect.stringContaining('7 limit: tokens'),
    ]);
  });

  test('a reservation grows beyond what remains', () => {
    expect(verdict(...setup({ quotas: [quota(60)] }), one, grown(one, 61), end(one, 10))).toEqual([
      expect.stringContaining('6 limit: tokens'),
    ]);
  });

  test('more requests run concurrently, or start in a minute, than allowed', () => {
    expect(verdict(...setup({ concurrent_requests: 1 }), one, two, end(one, 0), end(two, 0))).toEqual([
      expect.stringContaining('6 limit: concurrent'),
    ]);
    expect(verdict(...setup({ requests_per_minute: 1 }), one, end(one, 0), two, end(two, 0))).toEqual([
      expect.stringContaining('7 limit: requests'),
      expect.stringContaining('8 limit: requests'),
    ]);
  });

  test('a soft limit is overdrawn by more than declared, in tokens or cost', () => {
    const terms = { concurrent_requests: 1, reply_tokens_max: 100 };
    expect(verdict(...setup({ ...terms, quotas: [quota(60, 'soft')] }), one, end(one, 161))).toEqual([
      expect.stringContaining('exceed 60 and 100 of overdraft'),
    ]);
    const priced: ControlEvent = {
      type: 'model.priced',
      actor,
      model: 'm',
      base: { input: 0, output: 3_000_000, reasoning: 1 },
      source: 'manual',
    };
    const cost = call({ terms_position: 4, hold_cost_nanousd: 60 });
    const log = (spent: number) =>
      verdict(
        ...setup({ ...terms, quotas: [quota(60, 'soft', 'cost_nanousd')] }),
        priced,
        cost,
        end(cost, 1, { cost_nanousd: spent }),
      );
    expect(log(360)).toEqual([]);
    expect(log(361)).toEqual([expect.stringContaining('exceed 60 and 300 of overdraft')]);
  });

  test('a request exceeds the lower cap that it was admitted under', () => {
    const late = call({ terms_position: 5 });
    expect(
      verdict(
        ...setup({ quotas: [quota(120)] }),
        changed({ quotas: [quota(60)] }),
        one,
        late,
        end(one, 0),
        end(late, 0),
      ),
    ).toEqual([expect.stringContaining('7 limit: tokens')]);
  });

  test("a key's own limit is exceeded, though its account's is not", () => {
    const keyed = call({ terms_position: 5 });
    expect(
      verdict(...setup({ quotas: [quota(120)] }), restricted({ quotas: [quota(30)] }), keyed, end(keyed, 0)),
    ).toEqual([expect.stringContaining('6 limit: tokens of key/Key00001')]);
  });

  test('an override of the account stands in place of the plan', () => {
    const override: ControlEvent = {
      type: 'account.terms_overridden',
      actor,
      account: ACCOUNT,
      terms: { quotas: [quota(30)] },
      windows: 'keep',
    };
    const own = call({ terms_position: 5 });
    expect(verdict(...setup({ quotas: [quota(120)] }), override, own, end(own, 0))).toEqual([
      expect.stringContaining('6 limit: tokens'),
    ]);
  });

  test('a request was admitted under later terms', () => {
    const early = call({ terms_position: 5 });
    expect(verdict(...setup({}), early, end(early, 0))).toEqual([expect.stringContaining('5 terms: ')]);
  });

  test('a request has no end, two ends, two starts or no start', () => {
    expect(verdict(...setup({}), one)).toEqual([
      expect.stringContaining('5 ending: was accepted, but has no ending'),
    ]);
    expect(verdict(...setup({}), one, end(one, 1), abandoned(one))).toEqual([
      expect.stringContaining('7 ending: '),
    ]);
    expect(verdict(...setup({}), one, one, end(one, 1))).toEqual([
      expect.stringContaining('6 ending: was accepted twice'),
    ]);
    expect(verdict(...setup({}), grown(one, 1))).toEqual([expect.stringContaining('5 ending: ')]);
  });
});
