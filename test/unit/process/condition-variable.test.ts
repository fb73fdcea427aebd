import { expect, test } from 'vitest';
import { ConditionVariable } from '#server/read-model/condition-variable.ts';

const LONG_MS = 60_000;

test('whoever waits is told when they are had look and it is so, and not before', async () => {
  const waiters = new ConditionVariable();
  const seen: string[] = [];
  let position = 0;
  const waits = [2, 1].map((wanted) =>
    waiters.until(() => position >= wanted, LONG_MS).then((is) => seen.push(`${wanted} ${is}`)),
  );
  for (position of [0, 1]) waiters.notifyAll();
  await waits[1];
  expect(seen).toEqual(['1 true']);
  position = 2;
  waiters.notifyAll();
  await Promise.all(waits);
  expect(seen).toEqual(['1 true', '2 true']);
});

test('nobody waits for ever, or where too many wait already', async () => {
  const waiters = new ConditionVariable();
  expect(await waiters.until(() => false, 1)).toBe(false);
  let isOpen = false;
  const crowd = Array.from({ length: 1_000 }, () => waiters.until(() => isOpen, LONG_MS));
  expect(await waiters.until(() => isOpen, LONG_MS)).toBe(false);
  isOpen = true;
  waiters.notifyAll();
  expect(new Set(await Promise.all(crowd))).toEqual(new Set([true]));
});
