import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EVENT_CODES, type Event, type Placed } from '#db/events/events.ts';
import { OUTCOME_OF } from '#db/projections/outcomes.ts';
import { audienceOf } from '#server/feed/audience.ts';
import { type Frame, LiveMessage } from '#server/contract/frames.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import { LivePage, MESSAGE_FRAMES_MAX } from '#server/feed/page.ts';
import { packed } from '#server/feed/notify-payloads.ts';
import { progressPayloads, readProgress } from '#server/feed/progress.ts';
import type { Scope } from '#server/read/scope.ts';
import { Watch } from '#server/feed/watch.ts';
import { anyEvent } from '../../support/log/arbitrary-event.ts';
import { runs } from '../../fuzz/property-runs.ts';

const AT = new Date('2027-01-31T12:00:00.000Z');
const ACCOUNTS = ['Account1', 'Account2'];
const KEYS = ['Key00001', 'Key00002', 'Key00003'];
const PLANS = ['free', 'paid'];

/** What a call may cost here: no page sums up to more than a number holds, some nine billion dollars. */
const COST_MAX = Math.floor(Number.MAX_SAFE_INTEGER / 100);

/** Events of few subjects, so that pages hold several of each. */
const anyPage: fc.Arbitrary<Placed[]> = fc
  .array(
    fc.tuple(anyEvent, fc.constantFrom(...ACCOUNTS), fc.constantFrom(...KEYS), fc.constantFrom(...PLANS)),
    { minLength: 1, maxLength: 40 },
  )
  .map((drawn) =>
    drawn.map(([event, account, key, plan], index) => ({
      shard: 0,
      position: 100 + index,
      at: AT,
      instance: 1,
      stream: null,
      version: null,
      event: {
        ...event,
        ...('account' in event ? { account } : {}),
        ...('key' in event ? { key } : {}),
        ...('cost_nanousd' in event && event.cost_nanousd !== undefined
          ? { cost_nanousd: event.cost_nanousd % COST_MAX }
          : {}),
        ...('plan' in event && event.plan !== null ? { plan } : {}),
      } as Event,
    })),
  );
const anyScope: fc.Arbitrary<Scope> = fc.constantFrom(
  { account: null, key: null },
  { account: 'Account1', key: null },
  { account: 'Account1', key: 'Key00001' },
);
const anyFilter: fc.Arbitrary<RequestFilter> = fc.constantFrom(
  {},
  { key: 'Key00002' },
  { account: 'Account2' },
  { outcome: 'running' as const },
  { outcome: 'completed' as const },
  { outcome: 'refused' as const },
  { status: 200 },
);
const onFree = (account: string): string | null => (account === 'Account1' ? 'free' : null);
const read = (messages: readonly Buffer[]): LiveMessage[] =>
  messages.map((bytes) => LiveMessage.parse(JSON.parse(bytes.toString())));
const placed = (frames: readonly Frame[]): number[] =>
  frames.flatMap((frame) => ('at' in frame ? [frame.position] : []));

/** Said otherwise than the code says it: one event at a time, without regard to cost. */
function isShown({ event }: Placed, scope: Scope, filter: RequestFilter, isSignedIn: boolean): boolean {
  if (event.type === 'request.extended' || event.type === 'tokens.counted') return false;
  if (event.type === 'workload.exchanged') return false;
  if ('request' in event) {
    const outcome =
      event.type === 'request.accepted'
        ? 'running'
        : event.type === 'request.rejected'
          ? 'refused'
          : OUTCOME_OF[event.end_reason];
    const status = 'status' in event ? event.status : undefined;
    const isMeant =
      filter.outcome === undefined ||
      filter.outcome === outcome ||
      (filter.outcome === 'running' && outcome !== 'refused' && event.type !== 'usage.adjusted');
    return (
      [scope.account, filter.account ?? null].every(
        (account) => account === null || account === event.account,
      ) &&
      [scope.key, filter.key ?? null].every((key) => key === null || key === event.key) &&
      isMeant &&
      (filter.status === undefined || filter.status === status)
    );
  }
  const [subject = ''] = event.type.split('.');
  const ofService = ['registration', 'identity_provider', 'sign_in'];
  const ofPeople = [...ofService, 'member', 'session', 'invitation', 'management_key', 'workload'];
  if (ofPeople.includes(subject) && !isSignedIn) return false;
  if (scope.account === null) return true;
  if (ofService.includes(subject)) return false;
  if ('account' in event)
    return (
      event.account === scope.account && (scope.key === null || !('key' in event) || event.key === scope.key)
    );
  return 'plan' in event && event.plan === onFree(scope.account);
}

describe('a page of the log', () => {
  test('sends an audience exactly its matching events, in order and valid by the schema', () => {
    fc.assert(
      fc.property(
        anyPage,
        anyScope,
        anyFilter,
        fc.boolean(),
        fc.integer({ min: 99, max: 141 }),
        (events, scope, filter, isSignedIn, after) => {
          const messages = read(
            new LivePage(events, onFree).messagesFor(audienceOf(scope, filter, isSignedIn), after),
          );
          const expected = events
            .filter((each) => each.position > after && isShown(each, scope, filter, isSignedIn))
            .map(({ position }) => position);
          expect(messages.flatMap(({ frames }) => placed(frames))).toEqual(expected);
          if (messages.length > 0) expect(messages.at(-1)?.position).toBe(events.at(-1)?.position);
        },
      ),
      runs(100),
    );
  });

  test('shows no digest, name or term of what was changed', () => {
    fc.assert(
      fc.property(anyPage, (events) => {
        const frames = read(
          new LivePage(events, onFree).messagesFor(audienceOf({ account: null, key: null }, {}, true), 0),
        ).flatMap((message) => message.frames);
        const shown = new Set(
          frames.filter(({ type }) => type === 'notice').flatMap((frame) => Object.keys(frame)),
        );
        for (const name of shown)
          expect(['type', 'position', 'at', 'kind', 'account', 'key', 'plan', 'model']).toContain(name);
        for (const frame of frames)
          if (frame.type === 'notice') expect(Object.keys(EVENT_CODES)).toContain(frame.kind);
      }),
    );
  });

  test('adds to usage what its endings sum up to, each once, however the page is split', () => {
    const sum = (messages: LiveMessage[]): Record<string, number> => {
      const total: Record<string, number> = {};
      for (const frame of messages.flatMap(({ frames }) => frames)) {
        for (const row of frame.type === 'usage' ? frame.rows : []) {
          for (const [name, value] of Object.entries(row))
            if (typeof value === 'number')
              total[`${row.key} ${row.model} ${name}`] =
                (total[`${row.key} ${row.model} ${name}`] ?? 0) + value;
        }
      }
      return total;
    };
    fc.assert(
      fc.property(anyPage, anyScope, fc.nat(), (events, scope, cut) => {
        const audience = audienceOf(scope, {});
        const at = 1 + (cut % events.length);
        const parts = [events.slice(0, at), events.slice(at)].filter((part) => part.length > 0);
        const whole = read(new LivePage(events, onFree).messagesFor(audience, 0));
        const split = parts.flatMap((part) => read(new LivePage(part, onFree).messagesFor(audience, 0)));
        expect(sum(split)).toEqual(sum(whole));
        const settled = whole
          .flatMap(({ frames }) => frames)
          .filter((frame) => frame.type === 'settled' || frame.type === 'corrected');
        const outcomes = settled.reduce((total, { output_tokens = 0 }) => total + output_tokens, 0);
        expect(
          Object.entries(sum(whole))
            .filter(([name]) => name.endsWith(' output_tokens'))
            .reduce((total, [, value]) => total + value, 0),
        ).toBe(outcomes);
      }),
    );
  });

  test('of a backlog comes in messages of a bounded size, each with the position that it reaches', () => {
    const event: Event = {
      type: 'request.accepted',
      route: '/v1/chat/completions',
      request: '01a1fffd-088e-7242-bbde-9aba9931f5b9',
      account: 'Account1',
      key: 'Key00001',
      model: 'm',
      sse: true,
      body_bytes: 1,
      hold_tokens: 1,
    };
    const events = Array.from({ length: 2 * MESSAGE_FRAMES_MAX + 1 }, (_, index): Placed => ({
      shard: 0,
      position: index + 1,
      at: AT,
      instance: 1,
      stream: null,
      version: null,
      event,
    }));
    const messages = read(
      new LivePage(events, onFree).messagesFor(audienceOf({ account: 'Account1', key: null }, {}), 0),
    );
    expect(messages.map(({ frames, position }) => [frames.length, position])).toEqual([
      [MESSAGE_FRAMES_MAX, MESSAGE_FRAMES_MAX],
      [MESSAGE_FRAMES_MAX, 2 * MESSAGE_FRAMES_MAX],
      [1, 2 * MESSAGE_FRAMES_MAX + 1],
    ]);
  });
});

describe('what processes tell one another', () => {
  const anyCall = fc.record({
    type: fc.constant('progress' as const),
    request: fc.uuid(),
    account: fc.constantFrom(...ACCOUNTS),
    key: fc.constantFrom(...KEYS),
    model: fc.string({ minLength: 1, maxLength: 256, unit: 'grapheme-ascii' }),
    output_tokens: fc.nat(),
  });

  test('fits into notifications and comes back as it was, except to its own speaker', () => {
    fc.assert(
      fc.property(fc.array(anyCall, { maxLength: 200 }), (calls) => {
        const payloads = progressPayloads('me', calls);
        for (const payload of payloads) expect(Buffer.byteLength(payload)).toBeLessThan(8_000);
        expect(payloads.flatMap((payload) => readProgress(payload, 'you'))).toEqual(calls);
        expect(payloads.flatMap((payload) => readProgress(payload, 'me'))).toEqual([]);
      }),
    );
  });

  test('is nothing where it is not understood', () => {
    const watch = new Watch('me');
    for (const payload of ['', 'null', '{}', '{"by":"you","calls":7}', '{"by":"you","accounts":7}', '[']) {
      expect(readProgress(payload, 'me')).toEqual([]);
      watch.heard(payload);
    }
    expect(watch.isWatched).toBe(false);
    expect(packed([])).toEqual([]);
  });

  test("of what they watch is known to all others, and not taken for somebody else's by the speaker", () => {
    const [here, there] = [new Watch('here'), new Watch('there')];
    const accounts = Array.from({ length: 2_000 }, (_, index) => `Acc${String(index).padStart(5, '0')}`);
    for (const account of accounts) here.add(account);
    for (const payload of here.payloads()) {
      expect(payload.length).toBeLessThan(8_000);
      there.heard(payload);
      here.heard(payload);
    }
    expect(
      accounts.filter((account) => !there.isWatchedElsewhere(account) || there.isWatchedHere(account)),
    ).toEqual([]);
    expect(
      accounts.filter((account) => here.isWatchedElsewhere(account) || !here.isWatchedHere(account)),
    ).toEqual([]);
    for (const account of accounts) here.delete(account);
    expect([here.isWatched, there.isWatched]).toEqual([false, true]);
  });
});
