import { expect, test } from 'vitest';
import { streamOf } from '#db/events/streams.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { KEYS_EVER_MAX, KEYS_ACTIVE_MAX } from '#server/decide/bounds.ts';
import { KeyRoom } from '#server/dashboard/keys/key-room.ts';
import { ReadModel } from '#server/read-model/read-model.ts';

const actor = 'member/Abcdefgh';
const account = 'Account1';
const idOf = (number: number): string => `Key${String(number).padStart(5, '0')}`;
const created = (number: number): ControlEvent => ({
  type: 'key.created',
  account,
  key: idOf(number),
  name: 'key',
  digest: 'a'.repeat(64),
  last4: 'aaaa',
  actor,
});
const revoked = (number: number): ControlEvent => ({
  type: 'key.revoked',
  account,
  key: idOf(number),
  actor,
});

function modelOf(events: readonly ControlEvent[]): ReadModel {
  const model = new ReadModel();
  model.apply(
    events.map((event, index) => ({
      shard: 0,
      position: index + 1,
      at: new Date(0),
      instance: 1,
      stream: streamOf(event),
      version: 1,
      event,
    })),
  );
  return model;
}

test('keys that were made a moment ago count, also before the log has told of them', async () => {
  const model = modelOf(Array.from({ length: KEYS_ACTIVE_MAX - 1 }, (_, number) => created(number)));
  const room = new KeyRoom(model);
  const make = (id: string) => async () => ({ id });
  await expect(room.make('Account2', make('Elsewhere'))).resolves.toEqual({ id: 'Elsewhere' });
  await expect(room.make(account, make('TheLast1'))).resolves.toEqual({ id: 'TheLast1' });
  await expect(room.make(account, make('OneMore1'))).rejects.toThrow(`${KEYS_ACTIVE_MAX} keys at once`);
});

test('an account has only so many keys in all, those that are revoked too', async () => {
  const numbers = Array.from({ length: KEYS_EVER_MAX }, (_, number) => number);
  const room = new KeyRoom(modelOf(numbers.flatMap((number) => [created(number), revoked(number)])));
  await expect(room.make(account, async () => ({ id: 'OneMore1' }))).rejects.toThrow(
    `${KEYS_EVER_MAX} keys in all`,
  );
});
