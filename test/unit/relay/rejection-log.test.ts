import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import { ApiError, type ErrorCode } from '#server/errors/api-error.ts';
import { API_ERRORS } from '#server/errors/api-errors.ts';
import { REJECTION_ATTRIBUTIONS_MAX, REJECTION_MODELS_MAX } from '#server/instance/bounds.ts';
import { RejectionLog } from '#server/instance/rejection-log.ts';

const KEY = { id: 'Key00001', account: 'Account1' } as Key;
const route = '/v1/chat/completions';

function recorded(note: (log: RejectionLog) => void): EventOf<'request.rejected'>[] {
  const events: EventOf<'request.rejected'>[] = [];
  const log = new RejectionLog((event) => events.push(event));
  note(log);
  log.flush();
  return events;
}
const countOf = (events: readonly EventOf<'request.rejected'>[]): number =>
  events.reduce((sum, { rejected_count: each }) => sum + each, 0);

test('each code with status 403 or 429 is recorded with its route and model, and no other', () => {
  for (const code of Object.keys(API_ERRORS) as ErrorCode[]) {
    const error = new ApiError(code);
    const events = recorded((log) => {
      for (const request of ['r1', 'r2']) log.note(KEY, { request, route, model: 'gpt-x' }, error);
    });
    const expected = { request: 'r1', account: 'Account1', key: 'Key00001', route, model: 'gpt-x' };
    expect(events).toEqual(
      error.status === 403 || error.status === 429
        ? [
            {
              type: 'request.rejected',
              ...expected,
              error_code: code,
              status: error.status,
              rejected_count: 2,
            },
          ]
        : [],
    );
  }
});

test('a flood of model names and sessions stays bounded, and no call is lost', () => {
  const error = new ApiError('model_not_permitted');
  const events = recorded((log) => {
    for (let index = 0; index < 20_000; index++) {
      const attribution = index % 2 === 0 ? undefined : { session: `session${index}` };
      log.note(
        KEY,
        { request: `r${index}`, route, model: `m${index}`, ...(attribution && { attribution }) },
        error,
      );
    }
  });
  expect(countOf(events)).toBe(20_000);
  expect(events.length).toBe(REJECTION_ATTRIBUTIONS_MAX + REJECTION_MODELS_MAX + 1);
  expect(events.filter(({ model }) => model === undefined)).toHaveLength(1);
});

test('any order of calls is counted by key, code and model', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ model: fc.nat(300), code: fc.boolean(), session: fc.nat(300) }), {
        maxLength: 600,
      }),
      (calls) => {
        const events = recorded((log) => {
          for (const { model, code, session } of calls)
            log.note(
              KEY,
              { request: 'r', route, model: `m${model}`, attribution: { session: `s${session}` } },
              new ApiError(code ? 'model_not_permitted' : 'insufficient_quota'),
            );
        });
        expect(countOf(events)).toBe(calls.length);
        expect(events.length).toBeLessThanOrEqual(REJECTION_ATTRIBUTIONS_MAX + REJECTION_MODELS_MAX + 2);
        for (const code of ['model_not_permitted', 'insufficient_quota'])
          expect(countOf(events.filter(({ error_code }) => error_code === code))).toBe(
            calls.filter((call) => call.code === (code === 'model_not_permitted')).length,
          );
      },
    ),
    { numRuns: 50 },
  );
});
