import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { csvLine } from '#db/csv.ts';

/** A reader of RFC 4180, by its grammar alone. */
function parseLine(line: string): string[] {
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (line[at] === '"') {
      let cell = '';
      for (at++; ; at++) {
        if (line[at] === '"' && line[at + 1] === '"') cell += line[at++];
        else if (line[at] === '"') break;
        else if (at >= line.length) throw new Error('a quote is open at the end');
        else cell += line[at];
      }
      cells.push(cell);
      at++;
    } else {
      const end = /[,\r]/.exec(line.slice(at))?.index ?? Number.NaN;
      cells.push(line.slice(at, at + end));
      at += end;
    }
    if (line[at] === ',') at++;
    else if (line.slice(at) === '\r\n') return cells;
    else throw new Error(`something follows a cell: ${JSON.stringify(line.slice(at))}`);
  }
}

describe('a line of CSV', () => {
  test('contains numbers, booleans and nulls unchanged', () => {
    expect(csvLine([1, -2.5, -(10n ** 20n), true, null, undefined, '', 'a'])).toBe(
      '1,-2.5,-100000000000000000000,true,,,,a\r\n',
    );
  });

  test('is never a formula in a spreadsheet, however a text begins', () => {
    for (const text of [
      '=1+1',
      '+1',
      '-1',
      '@SUM(A1)',
      '\t=1',
      '\r=1',
      ' =1',
      '\u00a0=1',
      '@cf/meta/llama',
    ]) {
      expect(parseLine(csvLine([text, text]))).toEqual([`'${text}`, `'${text}`]);
    }
    for (const text of ['a=1', 'gpt-4o', '1-2', "'=1"]) expect(parseLine(csvLine([text]))).toEqual([text]);
  });

  test('round-trips every text, with commas, quotes and line ends', () => {
    const piece = fc.oneof(fc.constantFrom('"', ',', '\r', '\n', '=', "'", ' '), fc.string({ maxLength: 3 }));
    const text = fc.array(piece, { maxLength: 6 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 5 }), (cells) => {
        const read = parseLine(csvLine(cells));
        expect(read.map((cell, index) => (cell === cells[index] ? cell : cell.replace(/^'/, '')))).toEqual(
          cells,
        );
        for (const cell of read) expect(cell.trimStart()).not.toMatch(/^[=+\-@]/);
      }),
    );
  });
});
