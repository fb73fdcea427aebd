import { expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { REJECTION_ATTRIBUTIONS_MAX } from '#server/instance/bounds.ts';
import { RejectionLog } from '#server/instance/rejection-log.ts';

const KEY = { id: 'Key00001', account: 'Account1' } as Key;
const route = '/v1/chat/completions';

function rejections(): { log: RejectionLog; events: EventOf<'request.rejected'>[] } {
  const events: EventOf<'request.rejected'>[] = [];
  return { log: new RejectionLog((event) => events.push(event)), events };
}

test('rejections of one end user are one event, with the attribution of its calls', () => {
  const { log, events } = rejections();
  const error = new ApiError('rate_limit_exceeded');
  for (const end_user of ['aaaaaaaaaaaaaaaa', 'baaaaaaaaaaaaaaa', 'aaaaaaaaaaaaaaaa'])
    log.note(KEY, { request: end_user, route, attribution: { end_user } }, error);
  log.note(KEY, { request: 'none', route, attribution: {} }, error);
  log.note(KEY, { request: 'early', route }, error);
  log.flush();
  expect(events.map(({ end_user, rejected_count }) => [end_user, rejected_count])).toEqual([
    ['aaaaaaaaaaaaaaaa', 2],
    ['baaaaaaaaaaaaaaa', 1],
    [undefined, 2],
  ]);
});

test('a client that makes up a session for each call fills no log, and every call is counted', () => {
  const { log, events } = rejections();
  const error = new ApiError('rate_limit_exceeded');
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 5_000; n++)
      log.note(KEY, { request: 'r', route, attribution: { session: String(n).padStart(16, '0') } }, error);
    log.flush();
  }
  expect(events.length).toBe(2 * (REJECTION_ATTRIBUTIONS_MAX + 1));
  expect(events.reduce((sum, { rejected_count }) => sum + rejected_count, 0)).toBe(10_000);
});
