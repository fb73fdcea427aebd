import { expect, test } from 'vitest';
import { type Membership, Registry } from '#db/registry.ts';
import { keptBytes } from '../../support/memory/kept-bytes.ts';

test('a registry has those members that were added and not deleted, each once', () => {
  const registry = new Registry<string>();
  const memberships = new Map<string, Membership<string>>();
  for (const name of ['a', 'b', 'c', 'd']) memberships.set(name, registry.add(name));
  const remove = (name: string): void => registry.delete(memberships.get(name) as Membership<string>);
  remove('b');
  remove('d');
  remove('b');
  memberships.set('e', registry.add('e'));
  expect(registry.members().toSorted()).toEqual(['a', 'c', 'e']);
  expect(registry.size).toBe(3);
  for (const name of ['c', 'e', 'a', 'a', 'd']) remove(name);
  expect(registry.members()).toEqual([]);
});

test('minor collections free calls that have ended, although a registry had them', async () => {
  expect(await keptBytes('registry')).toBeLessThan(1_000);
  // The reason for it: a set keeps them.
  expect(await keptBytes('set')).toBeGreaterThan(2_000);
});
