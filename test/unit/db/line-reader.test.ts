import { expect, test } from 'vitest';
import { EVENT_CODES } from '#db/events/events.ts';
import type { BatchEvents } from '#db/log/chain.ts';
import { LineReader } from '#db/log/line-reader.ts';
import { readEvents, UnreadableEventError } from '#db/log/read.ts';
import { accepted, settled } from '../../support/log/log-writer.ts';
import { requestLine } from '../../support/log/request-line.ts';

/** Lines that are read where they are in the text of a batch. */

function readerOf(line: string): LineReader {
  const reader = new LineReader();
  reader.read(`(before,"1)\n${line}\n(after,2)`, 12, 12 + line.length);
  return reader;
}

test('a line within a batch has its own fields only', () => {
  const reader = readerOf('(12,,"a ""b"" (c,d)",x,)');
  expect(reader.count).toBe(5);
  expect([0, 1, 2, 3, 4, 5].map((field) => reader.cell(field))).toEqual([
    '12',
    null,
    'a "b" (c,d)',
    'x',
    null,
    null,
  ]);
  expect(reader.integer(0)).toBe(12);
});

test('a quoted field of one line is none of the next', () => {
  const reader = readerOf('("a b",c)');
  reader.read('(,c)', 0, 4);
  expect([reader.has(0), reader.cell(1)]).toEqual([false, 'c']);
});

test.each(['(12,', '12,3)', '("12,3)', '(1"2",3)', '(1,"2"x)'])('no fields are read from %j', (line) => {
  const reader = new LineReader();
  expect(() => reader.read(line, 0, line.length)).toThrow();
  expect(reader.has(0)).toBe(false);
});

test.each(['', 'x', '1.5', '1e3', '-', '"12"', ' 12'])('a field that has %j is no integer', (field) => {
  expect(() => readerOf(`(${field},1)`).integer(0)).toThrow(TypeError);
});

test('integers are read with their sign, up to the largest safe one', () => {
  const reader = readerOf(`(${Number.MAX_SAFE_INTEGER},${Number.MIN_SAFE_INTEGER},0)`);
  expect([0, 1, 2].map((field) => reader.integer(field))).toEqual([
    Number.MAX_SAFE_INTEGER,
    Number.MIN_SAFE_INTEGER,
    0,
  ]);
});

test('names of any number and length are read as they are', () => {
  const reader = new LineReader();
  for (let number = 0; number < 10_000; number++) {
    const name = `name-${number}`.padEnd((number % 100) + 1, 'x');
    const line = `(1,${name},2)`;
    reader.read(line, 0, line.length);
    expect(reader.name(1)).toBe(name);
  }
});

const request = accepted();
const lines = [request, settled(request), accepted(), settled(accepted())].map(requestLine);
const batch: BatchEvents = {
  row: { shard: '0', lastPosition: '13', eventCount: '4', instance: '7', at: '1790000000000000' },
  events: lines.join('\n'),
};

test('the events of a batch have their positions, within the range alone', () => {
  const positions = (after: number, upTo: number): number[] =>
    readEvents(batch, { after, upTo }).map(({ position }) => position);
  expect(positions(0, 100)).toEqual([10, 11, 12, 13]);
  expect(positions(10, 12)).toEqual([11, 12]);
  expect(positions(13, 20)).toEqual([]);
});

test('only the events of the wanted types are read', () => {
  const types = new Set([EVENT_CODES['request.settled']]);
  const read = readEvents(batch, { after: 9, upTo: 13 }, types);
  expect(read.map((each) => !(each instanceof UnreadableEventError) && [each.position, each.event])).toEqual(
    readEvents(batch, { after: 9, upTo: 13 })
      .filter((each) => !(each instanceof UnreadableEventError) && each.event.type === 'request.settled')
      .map((each) => !(each instanceof UnreadableEventError) && [each.position, each.event]),
  );
  expect(read.map(({ position }) => position)).toEqual([11, 13]);
});

test('a damaged line keeps its place between the others', () => {
  const damaged = [lines[0], 'nothing', lines[2], lines[3]].join('\n');
  const read = readEvents({ ...batch, events: damaged }, { after: 9, upTo: 13 });
  expect(read.map((each) => [each.position, each instanceof UnreadableEventError])).toEqual([
    [10, false],
    [11, true],
    [12, false],
    [13, false],
  ]);
});
