import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import {
  accepted,
  attempt,
  counted,
  failed,
  nothing,
  place,
  requestId,
} from '../../support/identity/identity-world.ts';
import {
  settled,
  unfinished,
  WELL,
  well,
  worldOf,
  type Call,
} from '../../support/identity/identity-world.ts';
import {
  checkIdentity,
  type ClientRow,
  type Rule,
  type Verdict,
  type World,
} from '../../support/identity/identity.ts';

/** What may be different in an ending. */
type Change = Partial<
  Omit<EventOf<'request.settled'>, 'type'> & Pick<EventOf<'request.abandoned'>, 'hold_tokens'>
>;

function rulesOf(verdict: Verdict): Rule[] {
  return [...new Set(verdict.violations.map(({ rule }) => rule))].toSorted();
}

/** The verdict on one call, changed. */
function judge(name: string, change: Partial<Call>, accounting: World['accounting'] = 'strict'): Verdict {
  return checkIdentity(worldOf([{ ...well(name, 1), ...change }], accounting));
}

/** The same call with another ending in the log. */
function ending(name: string, changes: Change): Partial<Call> {
  return { endings: well(name, 1).endings.map((each) => ({ ...each, ...changes })) };
}

/** The same call as another client saw it. */
function seen(name: string, changes: Partial<ClientRow>): Partial<Call> {
  return { client: { ...well(name, 1).client, ...changes } };
}

function expectOne(rule: Rule, message: string, verdict: Verdict): void {
  expect(verdict.violations).toMatchObject([
    { rule, request: requestId(1), message: expect.stringContaining(message) },
  ]);
}

const anyCalls = fc
  .array(fc.constantFrom(...Object.keys(WELL)), { maxLength: 12 })
  .map((names) => names.map((name, index) => well(name, index + 1)));

/** By the time in its id and its duration, both as in identity-world.ts. */
const ENDED_AT_MS = 0x0189_0000_0000 + 3;

describe('calls in which all is well', () => {
  test.each(Object.keys(WELL))('have no violation: %s', (name) => {
    for (const accounting of ['strict', 'overlapped'] as const) {
      expect(judge(name, {}, accounting)).toEqual({ violations: [], unattributed: [] });
    }
  });

  test('have none in any company', () => {
    fc.assert(
      fc.property(anyCalls, (calls) => {
        expect(checkIdentity(worldOf(calls)).violations).toEqual([]);
      }),
    );
  });

  test('have one as soon as any event of the log is lost or doubled', () => {
    fc.assert(
      fc.property(anyCalls, fc.nat(), fc.boolean(), (calls, at, isLost) => {
        const world = worldOf(calls);
        fc.pre(world.events.length > 0);
        const index = at % world.events.length;
        const kept = isLost ? [] : world.events.slice(index, index + 1);
        const events = [...world.events.slice(0, index), ...kept, ...kept, ...world.events.slice(index + 1)];
        expect(checkIdentity({ ...world, events }).violations).not.toEqual([]);
      }),
    );
  });
});

const unrecorded = { accepted: [], endings: [] };

describe('I1: a client that received anything of a relayed reply is in the log', () => {
  test('a reply without an acceptance', () => {
    expect(rulesOf(judge('healthy', unrecorded))).toEqual(['I1', 'I5']);
  });

  test.each([300, 401, 503])('an answer of the relay itself is no such reply: %i', (status) => {
    expect(judge('refused by the relay', seen('refused by the relay', { status })).violations).toEqual([]);
  });

  test('a reply without an x-request-id', () => {
    const { violations } = judge('healthy', seen('healthy', { requestId: null }));
    expect(violations).toMatchObject([
      { rule: 'I1', request: 'user-1', message: expect.stringContaining('x-request-id') },
    ]);
  });

  test('even if only the head arrived', () => {
    const onlyHead = seen('healthy', {
      upstreamId: null,
      bytes: 0,
      tokens: 0,
      sawDone: false,
      finished: false,
    });
    expect(rulesOf(judge('healthy', { ...unrecorded, ...onlyHead }))).toContain('I1');
  });
});

describe('I2: an accepted request has one ending, after its acceptance', () => {
  test.each<[string, Partial<Call>, string]>([
    ['no ending', { endings: [] }, 'has no ending'],
    ['two endings', { endings: [settled(1), settled(1)] }, 'has 2 endings'],
    ['settled and abandoned', { endings: [settled(1), ...well('abandoned', 1).endings] }, 'has 2 endings'],
    ['two acceptances', { accepted: [accepted(1), accepted(1)] }, 'was accepted 2 times'],
    ['another account', ending('healthy', { account: 'stranger' }), 'another account or key'],
    ['another key', ending('healthy', { key: 'stranger' }), 'another account or key'],
  ])('%s', (_, change, message) => {
    expectOne('I2', message, judge('healthy', change));
  });

  test('an ending of a request that was never accepted', () => {
    expectOne('I2', 'never accepted', checkIdentity({ ...worldOf([]), events: [place(settled(1), 1)] }));
  });

  test('an ending that stands before the acceptance', () => {
    const events = [place(settled(1), 1), place(accepted(1), 2)];
    expectOne('I2', 'before it was accepted', checkIdentity({ ...worldOf([well('healthy', 1)]), events }));
  });
});

describe('I3: what is settled is what was reported, or else what was relayed', () => {
  test.each<[string, string, Change, string]>([
    ['another input', 'healthy', { input_tokens: 11 }, '11/4/0/25/5'],
    ['another output', 'healthy', { output_tokens: 20 }, '10/4/0/20/5'],
    ['another count of cached tokens', 'healthy', { cache_read_tokens: 0 }, '10/0/0/25/5'],
    ['a cache write that nobody reported', 'healthy', { cache_write_tokens: 3 }, '10/4/3/25/5'],
    ['an implausible report', 'healthy', { usage_source: 'implausible' }, 'is implausible'],
    ['another count of reasoning tokens', 'healthy', { reasoning_tokens: 0 }, '10/4/0/25/0'],
    ['a report that nobody made', 'without a report', { usage_source: 'provider' }, 'which made none'],
    [
      'a report that was ignored',
      'healthy',
      { ...counted, output_tokens: 20 },
      'is counted (completed) although',
    ],
    [
      'a report that was ignored for a guess',
      'healthy as JSON',
      { usage_source: 'estimated' },
      'is estimated (completed) although',
    ],
    [
      'a guess where tokens could be counted',
      'cut by the upstream',
      { usage_source: 'estimated' },
      'could be counted',
    ],
    ['tokens relayed, but none settled', 'cut by the upstream', nothing, 'no source'],
    ['input without a source', 'refused by the upstream', { input_tokens: 3 }, 'no source'],
    ['output without a source', 'refused by the upstream', { output_tokens: 3 }, 'no source'],
    [
      'a charge without an attempt',
      'never reached the upstream',
      { ...counted, input_tokens: 3 },
      'never reached',
    ],
    ['more attempts than are told', 'tried twice', { attempt_count: 1 }, 'made 2 attempts'],
    [
      'another input than in running totals',
      'left in the middle of running totals',
      { input_tokens: 9 },
      'out of the running',
    ],
    ['more charged than was held', 'abandoned', { hold_tokens: 501 }, 'keeps a hold of 501'],
    ['less charged than a heartbeat allows for', 'abandoned', { hold_tokens: 499 }, 'is charged 499'],
  ])('%s', (_, name, changes, message) => {
    expectOne('I3', message, judge(name, ending(name, changes)));
  });

  // In all three the client has 6 tokens, or 7 of a whole reply, and the upstream has sent 12 or 7.
  test.each([
    ['left by the client', 6, 12],
    ['left in the middle of running totals', 6, 12],
    ['cut by the upstream', 7, 7],
  ])('counts from what arrived to what was sent are true, all others are not: %s', (name, least, most) => {
    for (let tokens = 0; tokens <= 15; tokens += 1) {
      const rules = rulesOf(judge(name, ending(name, { output_tokens: tokens })));
      expect([tokens, rules]).toEqual([tokens, tokens >= least && tokens <= most ? [] : ['I3']]);
    }
  });

  test.each([
    ['timed_out', 'late', 0, []],
    ['timed_out', 'in time', -1_000, ['I3']],
    ['access_revoked', 'late', 0, []],
    ['access_revoked', 'in time', -1_000, ['I3']],
    ['upstream_disconnected', 'at its end', 0, ['I3']],
  ] as const)('a report for a call that ended with %s, %s', (reason, _, afterEndMs, rules) => {
    const change = {
      attempts: [attempt(1, { usageAt: ENDED_AT_MS + afterEndMs })],
      ...ending('healthy', { ...counted, end_reason: reason, output_tokens: 20 }),
      ...seen('healthy', { sawDone: false, sawError: true }),
    };
    expect(rulesOf(judge('healthy', change))).toEqual(rules);
    // A reply without an error came to its end, and so did its report.
    expect(rulesOf(judge('healthy', { ...change, client: well('healthy', 1).client }))).toContain('I3');
  });

  test.each([
    [700, 700, []],
    [700, 699, ['I3']],
    [1_200, 1_000, []],
  ])('a recovered call of %d tokens received is charged %d of 1000', (tokens, charge, rules) => {
    const change = {
      accepted: [{ ...accepted(1), hold_tokens: 1_000 }],
      attempts: [attempt(1, { ...unfinished, tokensSent: tokens, ended: 'client_closed' })],
      ...ending('abandoned', { hold_tokens: charge }),
      ...seen('abandoned', { tokens }),
    };
    expect(rulesOf(judge('abandoned', change))).toEqual(rules);
  });

  test('a count of what the relay read, but did not relay, to a client that stayed', () => {
    const attempts = [attempt(1, { ...unfinished, tokensSent: 9, ended: 'reset' })];
    const change = { attempts, ...ending('cut by the upstream', { output_tokens: 8 }) };
    expectOne('I3', '7 were relayed', judge('cut by the upstream', change));
  });
});

describe('I5: every attempt at the upstream belongs to an accepted request', () => {
  test('an attempt whose client knows its request id', () => {
    expectOne('I5', 'without an acceptance', judge('refused by the upstream', unrecorded));
  });

  test('an attempt whose client knows nothing, with no acceptance left for it', () => {
    const name = 'left before it saw anything';
    expect(judge(name, unrecorded).violations).toMatchObject([{ rule: 'I5', request: 'user-1' }]);
    expect(rulesOf(checkIdentity(worldOf([well(name, 1), { ...well(name, 2), ...unrecorded }])))).toEqual([
      'I5',
    ]);
  });

  test('an acceptance for another model does not cover it', () => {
    const other = {
      accepted: [{ ...accepted(1), model: 'other' }],
      endings: [{ ...settled(1), model: 'other' }],
    };
    expect(rulesOf(judge('left before it saw anything', other))).toEqual(['I5']);
  });

  test('an attempt of which no client tells', () => {
    const ledger = [attempt(1), attempt(2, { user: null })];
    expect(checkIdentity({ ...worldOf([]), ledger }).violations).toMatchObject([
      { rule: 'I5' },
      { rule: 'I5' },
    ]);
  });

  test.each([1, 9])('a request id sent upstream is heeded only where the log knows it: %i', (n) => {
    const attempts = [attempt(1, { ...unfinished, requestId: requestId(n), ended: 'client_closed' })];
    expect(judge('left before it saw anything', { attempts }).violations).toEqual([]);
  });

  test('in overlapped accounting what delivered nothing is unattributed, and what delivered is not', () => {
    const refused = (status: number): Verdict =>
      judge(
        'refused by the upstream',
        { ...unrecorded, ...seen('refused by the upstream', { status }) },
        'overlapped',
      );
    const unattributed = { violations: [], unattributed: [{ user: 'user-1' }] };
    expect(judge('left before it saw anything', unrecorded, 'overlapped')).toMatchObject(unattributed);
    // A 5xx is the relay's own answer; anything below may have come from the upstream.
    expect(refused(500)).toMatchObject(unattributed);
    expect(rulesOf(refused(400))).toEqual(['I5']);
    expect(rulesOf(judge('healthy', unrecorded, 'overlapped'))).toEqual(['I1', 'I5']);
  });
});

describe('P8: nothing is invented, and nothing unfinished looks finished', () => {
  test.each<[string, string, Partial<ClientRow>, string]>([
    ['an invented [DONE]', 'cut by the upstream', { sawDone: true }, 'a [DONE]'],
    ['an invented [DONE] after finish_reason', 'without [DONE]', { sawDone: true }, 'a [DONE]'],
    ['invented tokens', 'abandoned', { tokens: 13 }, 'received 13 tokens'],
    ['a cut without an error', 'cut by the upstream', { sawError: false }, 'looks finished'],
    ['cut JSON with a proper end', 'cut in the middle of JSON', { finished: true }, 'looks finished'],
  ])('%s', (_, name, changes, message) => {
    expectOne('P8', message, judge(name, seen(name, changes)));
  });

  test('a stream without finish_reason must end in an error; a JSON body is passed on unchanged', () => {
    const stopped = { ...unfinished, tokensSent: 7, ended: 'stopped' } as const;
    const sse = { attempts: [attempt(1, stopped)], ...seen('cut by the upstream', { sawError: false }) };
    expectOne('P8', 'was stopped', judge('cut by the upstream', sse));
    const json = {
      attempts: [attempt(1, { ...stopped, sse: false })],
      ...seen('cut in the middle of JSON', { finished: true }),
    };
    expect(judge('cut in the middle of JSON', json).violations).toEqual([]);
  });
});

describe('P2: the reason in the log is what happened', () => {
  test.each<[string, string, Change, Partial<ClientRow>, string]>([
    [
      'completed although it was cut',
      'cut by the upstream',
      { end_reason: 'completed' },
      {},
      'reply was cut',
    ],
    [
      'completed although nothing was asked',
      'never reached the upstream',
      { end_reason: 'completed' },
      {},
      'never asked',
    ],
    [
      'completed although the client was cut off',
      'healthy',
      {},
      { finished: false, sawDone: false },
      'was cut off',
    ],
    ['completed with an error', 'healthy', { status: 502 }, { ...failed, status: 502 }, 'with status 502'],
    [
      'not completed although it arrived whole',
      'healthy',
      { end_reason: 'upstream_disconnected' },
      {},
      'complete and arrived',
    ],
    [
      'gone although it stayed',
      'cut by the upstream',
      { end_reason: 'client_disconnected' },
      {},
      'stayed to the end',
    ],
    ['another status than was given', 'refused by the upstream', {}, { status: 503 }, 'was given 503'],
  ])('%s', (_, name, inLog, atClient, message) => {
    expectOne('P2', message, judge(name, { ...ending(name, inLog), ...seen(name, atClient) }));
  });
});

test('two clients with the same user are a mistake of the test', () => {
  expect(() => checkIdentity(worldOf([well('healthy', 1), well('healthy', 1)]))).toThrow(
    'two clients have the user "user-1"',
  );
});
