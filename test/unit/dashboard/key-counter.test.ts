import { expect, test } from 'vitest';
import { streamOf } from '#db/events/streams.ts';
import type { ControlEvent } from '#db/events/events.ts';
import type { KeyCounts } from '#server/decide/key.ts';
import { KeyCounter } from '#server/dashboard/keys/key-counter.ts';
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

test('counts keys that were created here before the read model has read them', async () => {
  const counter = new KeyCounter(modelOf([created(0), created(1), revoked(1)]));
  const seen: KeyCounts[] = [];
  const create = (id: string) => (existing: KeyCounts) => {
    seen.push(existing);
    return Promise.resolve({ id });
  };
  await counter.create('Account2', create('Elsewhere'));
  await counter.create(account, create('NewKey01'));
  await counter.create(account, create('NewKey02'));
  expect(seen).toEqual([
    { active: 0, ever: 0 },
    { active: 1, ever: 2 },
    { active: 2, ever: 3 },
  ]);
});

test('counts a key once when the read model has read it', async () => {
  const model = modelOf([created(0)]);
  const counter = new KeyCounter(model);
  await counter.create(account, () => Promise.resolve({ id: idOf(0) }));
  const existing = await counter.create(account, (counts) => Promise.resolve({ id: 'NewKey01', counts }));
  expect(existing.counts).toEqual({ active: 1, ever: 1 });
});

test('does not count a key whose creation failed', async () => {
  const counter = new KeyCounter(modelOf([]));
  await expect(counter.create(account, () => Promise.reject(new Error('away')))).rejects.toThrow('away');
  const next = await counter.create(account, (counts) => Promise.resolve({ id: 'NewKey01', counts }));
  expect(next.counts).toEqual({ active: 0, ever: 0 });
});
