import { expect, test } from 'vitest';
import { Streams } from '#db/audit/verify/streams.ts';
import type { ControlEvent } from '#db/events/events.ts';

test('reserved idempotency keys of a key are valid as often as the key was rotated', () => {
  const streams = new Streams(true);
  const secret = { secret_id: 'a', digest: 'b', hint: 'c' };
  const event = { type: 'key.rotated', account: 'Account1', key: 'Key00001', actor: 'x', ...secret };
  streams.addEvent({
    position: 7,
    stream: 'key/Key00001',
    version: 1,
    event: event as unknown as ControlEvent,
  });
  const heads = (...claims: string[]): Map<string, number> =>
    new Map([['key/Key00001', 1], ...claims.map((claim): [string, number] => [`rotation/${claim}`, 0])]);
  expect(streams.compare(heads('Key00001/a'), 9)).toEqual([]);
  expect(streams.compare(heads('Key00001/a', 'Key00001/b'), 9)).toMatchObject([{ table: 'stream_head' }]);
  expect(streams.compare(heads('Key00002/a'), 9)).toMatchObject([{ table: 'stream_head' }]);
});
