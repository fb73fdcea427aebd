import type { Client } from 'pg';
import { expect, test } from 'vitest';
import type { ControlEvent } from '#db/events/events.ts';
import { appendControl } from '#db/log/append.ts';
import { EventTooLargeError } from '#db/log/control-line.ts';
import { encodeBundle, EntryTooLargeError } from '#db/tlog/entries.ts';

test('an entry bundle has each entry after its length in 16 bits', () => {
  const entries = ['', '(0,1)', 'x'.repeat(65_535)];
  const bundle = encodeBundle(entries, 1);
  expect(bundle.subarray(0, 9)).toEqual(Buffer.from('\0\0\0\x05(0,1)', 'latin1'));
  expect(bundle.readUInt16BE(9)).toBe(65_535);
  expect(bundle).toHaveLength(9 + 2 + 65_535);
});

test('an entry that is too large for a bundle is named by its position', () => {
  expect(() => encodeBundle(['x', 'x'.repeat(65_536)], 41)).toThrow(EntryTooLargeError);
  expect(() => encodeBundle(['x', 'x'.repeat(65_536)], 41)).toThrow('position 42 has 65536');
});

test('a control event that an entry bundle could not hold is not appended', async () => {
  const queries: unknown[] = [];
  const client = { query: (query: unknown) => queries.push(query) } as unknown as Client;
  const names = Array.from({ length: 200 }, (_, index) => `${index}`.padEnd(256, 'x'));
  const event: ControlEvent = {
    type: 'plan.defined',
    plan: 'large',
    actor: 'command-line',
    terms: { models: names, origins: names.map((name) => `https://${name.slice(0, 60)}.example.com`) },
  };
  await expect(appendControl(client, 1, 1, [{ event, version: 1 }])).rejects.toThrow(EventTooLargeError);
  expect(queries).toEqual([]);
});
