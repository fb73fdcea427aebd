import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type LogRow, logRowOf, pairRows } from '#db/audit/verify/batches.ts';
import { checkEvent, endOfRequest } from '#db/audit/verify/event.ts';
import { findRootCauses } from '#db/audit/verify/root-causes.ts';
import { ManifestFactsCounter } from '#db/audit/verify/manifest-facts.ts';
import { AuditTree, textOf } from '#db/audit/verify/tree.ts';
import { type PublishedLeaves, LogVerifier } from '#db/audit/verify/log-verifier.ts';
import {
  type Batch,
  type BatchRow,
  entriesOf,
  genesis,
  leafHash,
  LINE_FORMAT,
  linkBatch,
} from '#db/log/chain.ts';
import { AT, type ColumnName, FIELDS } from '#db/log/columns.ts';
import { cellsOf, textCell } from '#db/log/line.ts';
import { GrowingTree } from '../../support/audit/growing-tree.ts';
import { runs } from '../../fuzz/property-runs.ts';

const LOG = '0199aaaa-0000-7000-8000-000000000000';

type Fields = Partial<Record<ColumnName, string>>;
/** The line of these fields. */
const lineOf = (fields: Fields): string =>
  `(${FIELDS.map(({ name }) => (fields[name] === undefined ? '' : textCell(fields[name]))).join(',')})`;

const request = (position: number): Fields => ({
  request: `0190000${position % 10}-0000-7000-8000-00000000000${position % 7}`,
  account: 'Account1',
  key: 'Key00001',
});
/** The events of a generated log, in rotation: the first has a text in quotes, the last one is control. */
const EVENTS: readonly ((position: number) => Fields)[] = [
  (position) => ({
    ...request(position),
    type: '100',
    model: 'a "b", \\c',
    route: '1',
    sse: 't',
    body_bytes: '40',
    hold_tokens: '500',
    terms_position: '1',
  }),
  (position) => ({
    ...request(position),
    type: '101',
    model: 'm',
    upstream: 'one',
    status: '200',
    end_reason: '1',
    usage_source: '1',
    input_tokens: '10',
    cache_read_tokens: '0',
    output_tokens: '20',
    reasoning_tokens: '0',
    attempt_count: '1',
    duration_ms: '50',
    cost_nanousd: '9',
  }),
  (position) => ({
    ...request(position),
    type: '102',
    model: 'm',
    end_reason: '9',
    usage_source: '3',
    hold_tokens: '500',
  }),
  (position) => ({
    ...request(position),
    type: '104',
    route: '1',
    error_code: 'rate_limit_exceeded',
    status: '429',
    rejected_count: '3',
  }),
  (position) => ({
    type: '1',
    account: `Acct${String(position).padStart(4, '0')}`,
    stream: `account/Acct${String(position).padStart(4, '0')}`,
    version: '1',
    body: '{"name":"n","actor":"command-line"}',
  }),
];
const eventAt = (position: number): Fields =>
  (EVENTS[position % EVENTS.length] as (typeof EVENTS)[number])(position);

/** A log in both of its tables. */
type Made = { logs: LogRow[]; rows: BatchRow[]; leaves: Buffer[] };

function makeLog(sizes: readonly number[]): Made {
  const made: Made = { logs: [], rows: [], leaves: [] };
  let chain = genesis(LOG);
  for (const [index, size] of sizes.entries()) {
    const first = made.leaves.length + 1;
    const batch: Batch = {
      row: {
        shard: '0',
        lastPosition: String(first + size - 1),
        eventCount: String(size),
        instance: String(1 + (index % 3)),
        batchNo: String(index),
        at: String(1_790_000_000_000_000 + index),
        format: LINE_FORMAT,
        chain,
      },
      events: Array.from({ length: size }, (_, each) => lineOf(eventAt(first + each))).join('\n'),
    };
    chain = linkBatch(chain, batch);
    made.rows.push({ ...batch.row, chain });
    made.logs.push(logRowOf(batch));
    made.leaves.push(...entriesOf(batch).map(leafHash));
  }
  return made;
}

/** The findings in batches, with these published leaves. */
function verify({ logs, rows }: Made, published: readonly Buffer[] | null, borders: readonly number[] = []) {
  const compare: PublishedLeaves['compare'] = (from, leaves) => ({
    different: leaves.flatMap((leaf, at) => {
      const known = published?.[from + at - 1];
      return known === undefined || textOf(known) === leaf ? [] : [from + at];
    }),
    isComplete: published !== null,
  });
  const verifier = new LogVerifier(
    { first: 1, chain: genesis(LOG), tree: new AuditTree() },
    { compare },
    new ManifestFactsCounter([], null),
    borders,
  );
  const batches = pairRows(logs, rows);
  for (const [index, batch] of batches.entries()) verifier.addBatch(batch, batches[index + 1]);
  verifier.finish(Math.max(...logs.map(({ lastPosition }) => Number(lastPosition))));
  const findings = findRootCauses({
    direct: verifier.findings,
    different: verifier.different,
    broken: verifier.broken,
    contradiction: null,
    nodes: [],
    missingNodes: [],
    covered: 0,
    tableFindings: [],
  });
  return { findings, tree: verifier.tree };
}

const sizes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: 8 });

/** The batch of a position: its index, and that of the line in it. */
function placeOf({ rows }: Made, position: number): { at: number; line: number; from: number } {
  const at = rows.findIndex(({ lastPosition }) => Number(lastPosition) >= position);
  const { lastPosition, eventCount } = rows[at] as BatchRow;
  const from = Number(lastPosition) - Number(eventCount) + 1;
  return { at, line: position - from, from };
}

/** The log with other lines in the batch of a position. */
function withLines(made: Made, position: number, change: (lines: string[], at: number) => string[]): Made {
  const { at, line } = placeOf(made, position);
  const log = made.logs[at] as LogRow;
  return {
    ...made,
    logs: made.logs.with(at, { ...log, events: change(log.events.split('\n'), line).join('\n') }),
  };
}

describe('log verifier', () => {
  test('log verifier: a valid log passes with the root of RFC 6962, for any batches', () => {
    fc.assert(
      fc.property(sizes, (each) => {
        const made = makeLog(each);
        const { findings, tree } = verify(made, made.leaves);
        const whole = new GrowingTree();
        for (const leaf of made.leaves) whole.append(leaf);
        expect(findings).toEqual([]);
        expect(tree?.root()).toEqual(whole.root());
        expect(verify(made, null).findings).toEqual([]);
      }),
      runs(10),
    );
  });

  test('log verifier: a changed field is located at its line, or in its batch without tiles', () => {
    fc.assert(
      fc.property(
        sizes,
        fc.nat(),
        fc.nat(FIELDS.length - 1),
        fc.constantFrom('7', 'x', '', '""'),
        (each, which, field, value) => {
          const made = makeLog(each);
          const position = 1 + (which % made.leaves.length);
          const changed = withLines(made, position, (lines, at) => {
            const cells = cellsOf(lines[at] as string).map((cell) => (cell === null ? '' : textCell(cell)));
            return lines.with(at, `(${cells.with(field, value).join(',')})`);
          });
          fc.pre(JSON.stringify(changed.logs) !== JSON.stringify(made.logs));
          expect(verify(changed, made.leaves).findings[0]).toMatchObject({ position, table: 'log' });
          const [found] = verify(changed, null).findings;
          expect(found?.position).toBeLessThanOrEqual(position);
          expect(found?.position).toBeGreaterThanOrEqual(placeOf(made, position).from);
          if (found?.position !== position) expect(found?.to).toBeGreaterThanOrEqual(position);
        },
      ),
      runs(100),
    );
  });

  test('log verifier: any changed, removed or added character of a batch is found in it', () => {
    fc.assert(
      fc.property(
        sizes,
        fc.nat(),
        fc.nat(),
        fc.constantFrom('', '(', '\n', ' ', 'é', '1', 'x,'),
        fc.nat(1),
        (each, which, character, added, removed) => {
          const made = makeLog(each);
          const { at, from } = placeOf(made, 1 + (which % made.leaves.length));
          const log = made.logs[at] as LogRow;
          const place = character % (log.events.length + 1);
          const events = log.events.slice(0, place) + added + log.events.slice(place + removed);
          fc.pre(events !== log.events);
          for (const leaves of [made.leaves, null]) {
            const { findings } = verify({ ...made, logs: made.logs.with(at, { ...log, events }) }, leaves);
            expect(findings[0]?.position).toBeGreaterThanOrEqual(from);
            expect(findings[0]?.position).toBeLessThanOrEqual(Number(log.lastPosition) + 1);
            expect(findings[0]?.table).toBe('log');
          }
        },
      ),
      runs(100),
    );
  });

  test('log verifier: a missing, doubled or swapped line is located at the first difference', () => {
    fc.assert(
      fc.property(sizes, fc.nat(), fc.constantFrom('gone', 'twice', 'swapped'), (each, which, how) => {
        const made = makeLog(each.map((size) => size + 1));
        const position = 1 + (which % made.leaves.length);
        const { at, from } = placeOf(made, position);
        const last = Number(made.rows[at]?.lastPosition);
        fc.pre(how !== 'swapped' || position < last);
        const changed = withLines(made, position, (lines, line) => {
          const own = lines[line] as string;
          if (how === 'gone') return lines.toSpliced(line, 1);
          if (how === 'twice') return lines.toSpliced(line, 0, own);
          return lines.with(line, lines[line + 1] as string).with(line + 1, own);
        });
        // A line has no position: the copy of one is where the next one should be, if there is one.
        const expected = how === 'twice' ? Math.min(position + 1, last) : position;
        const { findings } = verify(changed, made.leaves);
        expect(findings[0]).toMatchObject({ position: expected, table: 'log' });
        expect(findings.map(({ position: found }) => found)).toEqual(
          how === 'swapped' ? [position, position + 1] : [expected],
        );
        const [found] = verify(changed, null).findings;
        expect(found).toMatchObject({ position: from, to: last, table: 'log' });
      }),
      runs(35),
    );
  });

  test('log verifier: a changed field of a row of a batch is reported there, and blames no event', () => {
    const fields = [
      'lastPosition',
      'eventCount',
      'instance',
      'batchNo',
      'at',
      'format',
      'shard',
      'chain',
    ] as const;
    fc.assert(
      fc.property(
        sizes,
        fc.nat(),
        fc.constantFrom(...fields),
        fc.integer({ min: 1, max: 3 }),
        (each, which, field, more) => {
          const made = makeLog(each);
          const at = which % made.rows.length;
          const row = made.rows[at] as BatchRow;
          const value = field === 'chain' ? Buffer.alloc(32, more) : String(Number(row[field]) + more);
          const rows = made.rows.with(at, { ...row, [field]: value });
          rows.sort((one, other) => Number(one.lastPosition) - Number(other.lastPosition));
          fc.pre(new Set(rows.map(({ lastPosition }) => lastPosition)).size === rows.length);
          for (const leaves of [made.leaves, null]) {
            const { findings } = verify({ ...made, rows }, leaves);
            const from = Number(row.lastPosition) - Number(row.eventCount) + 1;
            expect(findings[0]).toMatchObject({ position: from });
            // Without tiles the events can be the cause of what only the chain shows.
            const isAmbiguous = leaves === null && (field === 'batchNo' || field === 'chain');
            if (isAmbiguous) continue;
            expect(findings[0]).toMatchObject({ table: 'log_batch' });
            // One behind all others may be of events that are missing at the end.
            if (field !== 'lastPosition') expect(findings.filter(({ table }) => table === 'log')).toEqual([]);
          }
        },
      ),
      runs(70),
    );
  });

  test('log verifier: a changed field of a row of the log is reported there, and blames no batch', () => {
    const fields = ['lastPosition', 'eventCount', 'instance', 'at'] as const;
    fc.assert(
      fc.property(
        sizes,
        fc.nat(),
        fc.constantFrom(...fields),
        fc.integer({ min: 1, max: 3 }),
        (each, which, field, more) => {
          const made = makeLog(each);
          const at = which % made.logs.length;
          const log = made.logs[at] as LogRow;
          const logs = made.logs.with(at, { ...log, [field]: String(Number(log[field]) + more) });
          logs.sort((one, other) => Number(one.lastPosition) - Number(other.lastPosition));
          fc.pre(new Set(logs.map(({ lastPosition }) => lastPosition)).size === logs.length);
          const { from } = placeOf(made, Number(log.lastPosition));
          for (const leaves of [made.leaves, null])
            expect(verify({ ...made, logs }, leaves).findings[0]).toMatchObject({
              position: from,
              table: 'log',
            });
        },
      ),
      runs(70),
    );
  });

  test('log verifier: a batch without one or both of its rows is the first finding', () => {
    fc.assert(
      fc.property(sizes, fc.nat(), fc.constantFrom('log', 'log_batch', 'both'), (each, which, table) => {
        const made = makeLog(each);
        const at = which % (made.rows.length - 1);
        const { from } = placeOf(made, Number(made.rows[at]?.lastPosition));
        const to = Number(made.rows[at]?.lastPosition);
        const rows = table === 'log' ? made.rows : made.rows.toSpliced(at, 1);
        const logs = table === 'log_batch' ? made.logs : made.logs.toSpliced(at, 1);
        const { findings } = verify({ ...made, logs, rows }, made.leaves);
        expect(findings).toMatchObject([
          {
            position: from,
            ...(to > from ? { to } : {}),
            table: table === 'log_batch' ? table : 'log',
            problem: expect.stringContaining(table === 'log_batch' ? 'to no batch' : 'missing'),
          },
        ]);
      }),
      runs(35),
    );
  });

  test('log verifier: a row of the log that was inserted among batches is located, and no other one', () => {
    const made = makeLog([3, 4, 5]);
    const log = { ...(made.logs[0] as LogRow), eventCount: '1', events: lineOf(eventAt(2)) };
    for (const last of [0, 5, 9]) {
      const logs = [...made.logs, { ...log, lastPosition: String(last) }];
      logs.sort((one, other) => Number(one.lastPosition) - Number(other.lastPosition));
      const { findings } = verify({ ...made, logs }, made.leaves);
      expect(findings).toMatchObject([{ position: last, table: 'log' }]);
    }
  });

  test('log verifier: a batch that crosses a border is a finding', () => {
    const made = makeLog([3, 4, 5]);
    expect(verify(made, made.leaves, [3, 12]).findings).toEqual([]);
    expect(verify(made, made.leaves, [2, 7]).findings).toMatchObject([{ position: 1, table: 'log' }]);
    expect(verify(made, made.leaves, [3, 10]).findings).toMatchObject([{ position: 8, table: 'log' }]);
  });
});

describe('lines', () => {
  const value = fc.oneof(
    fc.string({ unit: fc.constantFrom(...'ab "\\(),\n1'.split('')), maxLength: 6 }),
    fc.constantFrom(
      '1',
      '13',
      '77',
      't',
      'x',
      '-1',
      '0',
      '007',
      '40000',
      '9999999999',
      '101',
      'gpt-4o',
      'é',
      '',
    ),
  );
  const cells = fc.tuple(
    fc.nat(200),
    fc.array(fc.tuple(fc.nat(FIELDS.length - 1), value, fc.boolean()), { maxLength: 2 }),
  );

  test('line: the pattern of a request accepts only lines that are events, to their end', () => {
    fc.assert(
      fc.property(cells, ([position, changes]) => {
        const fields = cellsOf(lineOf(eventAt(position))).map((cell) =>
          cell === null ? '' : textCell(cell),
        );
        for (const [at, changed, isQuoted] of changes)
          fields[at] = isQuoted ? `"${changed.replace(/["\\]/g, '$&$&')}"` : changed;
        const line = `(${fields.join(',')})`;
        fc.pre(!line.includes('\n'));
        const before = `${lineOf(eventAt(1))}\n`;
        for (const text of [line, `${before}${line}`, `${before}${line}\n${before}`]) {
          const from = text.startsWith(before) ? before.length : 0;
          const end = endOfRequest(text, from);
          if (end < 0) continue;
          expect(end).toBe(from + line.length);
          expect(checkEvent(line)).toMatchObject({ problem: null, control: null });
        }
      }),
      runs(250),
    );
    for (const position of [1, 2, 3]) {
      const line = lineOf(eventAt(position));
      expect(endOfRequest(`${line}\n`, 0)).toBe(line.length);
    }
  });

  test.each<[string, Fields]>([
    ['a number that its column does not hold', { body_bytes: '2147483648' }],
    ['a number with a zero before it', { body_bytes: '040' }],
    ['a word in place of a number', { hold_tokens: 'x' }],
    ['a value in a field that its type never has', { cost_nanousd: '1' }],
    ['an unknown type', { type: '77' }],
    ['a route that is not one', { route: '77' }],
  ])('line: %s is no event of the vocabulary', (_what, fields) => {
    const line = lineOf({ ...eventAt(5), ...fields });
    expect(endOfRequest(line, 0)).toBe(-1);
    expect(checkEvent(line).problem).toEqual(expect.any(String));
  });

  test('line: only the text that PostgreSQL writes for its values is one', () => {
    const valid = lineOf(eventAt(6));
    expect(checkEvent(valid).problem).toBeNull();
    for (const line of [
      '',
      valid.slice(1),
      valid.slice(0, -1),
      `${valid} `,
      valid.replace('Account1', '"Account1"'),
      valid.replace('Account1', 'Account\u00a0'),
      valid.replace(',Account1', ',,Account1'),
    ])
      expect([line, checkEvent(line)]).toEqual([line, { problem: 'is no line of an event', cells: null }]);
  });

  test('line: a control event of another stream or model than its body is invalid', () => {
    const valid = cellsOf(lineOf(eventAt(4)));
    for (const [field, changed] of [
      [AT.stream, 'account/Another1'],
      [AT.model, 'gpt-4o'],
      [AT.account, 'Another1'],
      [AT.body, '{}'],
    ] as const) {
      const fields = valid.with(field, changed).map((cell) => (cell === null ? '' : textCell(cell)));
      expect(checkEvent(`(${fields.join(',')})`).problem).toEqual(expect.any(String));
    }
  });
});
