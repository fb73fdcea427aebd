import { describe, expect, test } from 'vitest';
import { evolveRequest, type Request, type RequestLifeEvent, RequestOrderError } from '#db/fold/request.ts';

describe('a request', () => {
  const ids = {
    request: '01900000-0000-7000-8000-000000000001',
    account: 'Account1',
    key: 'Key00001',
    model: 'm',
  };
  const accepted: RequestLifeEvent = {
    type: 'request.accepted',
    route: '/v1/chat/completions',
    ...ids,
    sse: true,
    body_bytes: 10,
    hold_tokens: 7,
  };
  const settled: RequestLifeEvent = {
    type: 'request.settled',
    ...ids,
    end_reason: 'completed',
    usage_source: 'provider',
    status: 200,
    input_tokens: 3,
    cache_read_tokens: 1,
    output_tokens: 2,
    reasoning_tokens: 0,
    attempt_count: 1,
    duration_ms: 9,
  };
  const extended: RequestLifeEvent = {
    type: 'request.extended',
    ...ids,
    hold_tokens: 30,
    hold_cost_nanousd: 500,
  };
  const abandoned: RequestLifeEvent = {
    type: 'request.abandoned',
    ...ids,
    end_reason: 'abandoned',
    usage_source: 'estimated',
    hold_tokens: 7,
  };
  const after = (...events: RequestLifeEvent[]): Request | undefined =>
    events.reduce<Request | undefined>(evolveRequest, undefined);

  test('is open until its one ending, which says what it used', () => {
    expect(after(accepted)).toEqual({
      id: ids.request,
      account: 'Account1',
      key: 'Key00001',
      model: 'm',
      holdTokens: 7,
      holdCostNanousd: null,
      end: null,
    });
    expect(after(accepted, settled)?.end).toEqual({
      reason: 'completed',
      usageSource: 'provider',
      inputTokens: 3,
      outputTokens: 2,
    });
    expect(after(accepted, abandoned)).toMatchObject({
      holdTokens: 7,
      end: { reason: 'abandoned', usageSource: 'estimated' },
    });
  });

  test('holds what it was last given, until its end and in it', () => {
    expect(after({ ...accepted, hold_cost_nanousd: 100 })).toMatchObject({
      holdTokens: 7,
      holdCostNanousd: 100,
    });
    expect(after(accepted, extended)).toMatchObject({ holdTokens: 30, holdCostNanousd: 500, end: null });
    const more = { ...extended, hold_tokens: 31, hold_cost_nanousd: 510 };
    expect(after(accepted, extended, more)).toMatchObject({
      holdTokens: 31,
      holdCostNanousd: 510,
      end: null,
    });
    expect(after(accepted, extended, settled)).toMatchObject({
      holdTokens: 30,
      holdCostNanousd: 500,
      end: { reason: 'completed' },
    });
  });

  test.each<[string, RequestLifeEvent[], string]>([
    ['accepted twice', [accepted, accepted], 'was accepted twice'],
    ['accepted again after its end', [accepted, settled, accepted], 'was accepted twice'],
    ['settled without being accepted', [settled], 'ended without being accepted'],
    ['abandoned without being accepted', [abandoned], 'ended without being accepted'],
    ['extended without being accepted', [extended], 'was extended without being accepted'],
    ['extended after it was settled', [accepted, settled, extended], 'was extended after its end'],
    [
      'extended after it was abandoned',
      [accepted, extended, abandoned, extended],
      'was extended after its end',
    ],
    ['accepted again after it was extended', [accepted, extended, accepted], 'was accepted twice'],
    ['settled twice', [accepted, settled, settled], 'ended twice'],
    ['abandoned after it was settled', [accepted, settled, abandoned], 'ended twice'],
    ['settled after it was abandoned', [accepted, abandoned, settled], 'ended twice'],
  ])('%s breaks the promise of one ending and is told by its id', (_, events, message) => {
    expect(() => after(...events)).toThrow(new RequestOrderError(`request ${ids.request} ${message}`));
  });
});
