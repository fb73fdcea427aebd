import { expect, test } from 'vitest';
import { UnappliedEvents } from '#server/read-model/unapplied-events.ts';

const row = { type: 999, version: 1, account: null, key: null };

function after(...streams: string[]): UnappliedEvents {
  const events = new UnappliedEvents();
  for (const [index, stream] of streams.entries())
    events.note({ position: index + 1, row: { ...row, stream } });
  return events;
}

test('an event that is not applied concerns its subject alone', () => {
  const events = after('key/aaaaaaaa', 'session/x', 'log');
  expect(events.of('key', 'aaaaaaaa')).toEqual({ subject: 'key/aaaaaaaa', position: 1, type: 999 });
  expect(events.of('key', 'bbbbbbbb')).toBeUndefined();
  expect(events.isEverything).toBe(false);
});

test('the price of a model that is not applied concerns every model that it may be the price of', () => {
  const events = after('model/gpt-4o*', 'model/llama');
  expect(['GPT-4o-mini', 'gpt-4o', 'Llama'].map((name) => events.ofModel(name)?.position)).toEqual([1, 1, 2]);
  expect(['gpt-4', 'llama-3'].map((name) => events.ofModel(name))).toEqual([undefined, undefined]);
});

test('an event of an unknown kind of subject concerns its key or account, else everything', () => {
  const events = new UnappliedEvents();
  const novel = { ...row, stream: 'novelty/1' };
  events.note({ position: 1, row: { ...novel, account: 'aaaaaaaa', key: 'bbbbbbbb' } });
  events.note({ position: 2, row: { ...novel, account: 'cccccccc' } });
  expect(events.all.map(({ subject }) => subject)).toEqual(['key/bbbbbbbb', 'account/cccccccc']);
  expect(events.of('account', 'aaaaaaaa')).toBeUndefined();
  events.note({ position: 3, row: novel });
  expect(events.of('account', 'aaaaaaaa')?.position).toBe(3);
  expect(events.isEverything).toBe(true);
});
