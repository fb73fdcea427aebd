import { expect, test } from 'vitest';
import { PeerWatch } from '#db/instances/peer-watch.ts';

const peer = (id: number, heartbeat: string | number, isDead = false) => ({
  id,
  heartbeat: String(heartbeat),
  isDead,
});

test('a peer whose heartbeat stands still for five observed seconds is dead, others are not', () => {
  const watch = new PeerWatch();
  const dead = Array.from({ length: 7 }, (_, second) =>
    watch.observe([peer(1, 'still'), peer(2, second)], second * 1_000),
  );
  expect(dead).toEqual([[], [], [], [], [], [1], [1]]);
});

test('a peer whose heartbeat moves again is observed from zero', () => {
  const watch = new PeerWatch();
  for (let second = 0; second < 4; second++) watch.observe([peer(1, 'a')], second * 1_000);
  const dead = Array.from({ length: 6 }, (_, second) =>
    watch.observe([peer(1, 'b')], 4_000 + second * 1_000),
  );
  expect(dead).toEqual([[], [], [], [], [], [1]]);
});

test('a peer that was declared dead is dead at once', () => {
  expect(new PeerWatch().observe([peer(1, 'x', true), peer(2, 'x')], 0)).toEqual([1]);
});

test('time without observation makes no peer dead', () => {
  const watch = new PeerWatch();
  for (let round = 0; round < 20; round++) {
    expect(watch.observe([peer(1, 'still')], round * 4_000)).toEqual([]);
    watch.reset();
  }
});

test('an observer that was frozen does not mistake its own pause for that of its peers', () => {
  const watch = new PeerWatch();
  watch.observe([peer(1, 'still')], 0);
  watch.observe([peer(1, 'still')], 1_000);
  expect(watch.observe([peer(1, 'still')], 60_000)).toEqual([]);
  expect(watch.observe([peer(1, 'moved')], 61_000)).toEqual([]);
});
