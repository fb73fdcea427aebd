import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { lineSpans } from '#db/archive/lines.ts';
import { JsonRows } from '#db/audit/source/json-rows.ts';
import { copyFields, CopyRows } from '#db/audit/source/copy-rows.ts';
import {
  type EventRow,
  fieldsOf,
  microsecondsOf,
  rowOfFields,
  rowOfText,
  textOf,
} from '#db/audit/source/event-row.ts';
import { AT, checkEvent, NAMES } from '#db/audit/verify/event.ts';
import { findRootCauses } from '#db/audit/verify/root-causes.ts';
import { ManifestFactsCounter } from '#db/audit/verify/manifest-facts.ts';
import { AuditTree } from '#db/audit/verify/tree.ts';
import { type PublishedLeaves, LogVerifier } from '#db/audit/verify/log-verifier.ts';
import { type BatchRow, compositeText, genesis, leafOf, type LeafRow, linkBatch } from '#db/log/chain.ts';
import { GrowingTree } from '#db/tlog/merkle.ts';

const LOG = '0199aaaa-0000-7000-8000-000000000000';
type Fields = Record<string, string>;

/** A row of these columns at a position. */
function rowOf(position: number, at: string, instance: string, fields: Fields): (string | null)[] {
  const common: Fields = { shard: '0', position: String(position), at, instance, ...fields };
  return NAMES.map((name) => common[name] ?? null);
}

const request = (position: number): Fields => ({
  request: `0190000${position % 10}-0000-7000-8000-00000000000${position % 7}`,
  account: 'Account1',
  key: 'Key00001',
});
/** The events of a generated log, in rotation. */
const EVENTS: readonly ((position: number) => Fields)[] = [
  (position) => ({
    ...request(position),
    type: '100',
    model: 'a "b", \\c',
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
    cached_tokens: '0',
    output_tokens: '20',
    reasoning_tokens: '0',
    attempt_count: '1',
    duration_ms: '50',
    cost_microusd: '9',
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

type Made = { rows: LeafRow[]; batches: BatchRow[]; leaves: Buffer[] };

function makeLog(sizes: readonly number[]): Made {
  const made: Made = { rows: [], batches: [], leaves: [] };
  let chain = genesis(LOG);
  for (const [index, size] of sizes.entries()) {
    const at = String(1_790_000_000_000_000 + index);
    const own = Array.from({ length: size }, (_, each) => {
      const position = made.rows.length + each + 1;
      return rowOf(
        position,
        at,
        String(1 + (index % 3)),
        (EVENTS[position % EVENTS.length] as (typeof EVENTS)[number])(position),
      );
    });
    const batch = {
      shard: '0',
      lastPosition: String(made.rows.length + size),
      eventCount: String(size),
      instance: String(1 + (index % 3)),
      batchNo: String(index),
      at,
      format: '1',
      chain,
    };
    chain = linkBatch(chain, own, batch);
    made.rows.push(...own);
    made.batches.push({ ...batch, chain });
    made.leaves.push(...own.map(leafOf));
  }
  return made;
}

/** The findings in rows and batches, with these published leaves. */
function verify({ rows, batches }: Made, published: readonly Buffer[] | null) {
  const compare: PublishedLeaves['compare'] = (from, leaves) => ({
    different:
      published === null
        ? []
        : Array.from({ length: leaves.length / 32 }, (_, at) => from + at).filter(
            (position, at) =>
              published[position - 1]?.equals(leaves.subarray(at * 32, at * 32 + 32)) === false,
          ),
    isComplete: published !== null,
  });
  const verifier = new LogVerifier(
    { first: 1, chain: genesis(LOG), leavesBefore: [], tree: new AuditTree() },
    { compare },
    new ManifestFactsCounter([], { position: 0, chain: '' }),
  );
  let at = 0;
  for (const batch of batches) {
    for (; at < rows.length && !(Number(rows[at]?.[AT.position]) > Number(batch.lastPosition)); at++)
      verifier.addRow(rowOfText(compositeText(rows[at] as LeafRow)));
    verifier.addBatch(batch);
  }
  for (; at < rows.length; at++) verifier.addRow(rowOfText(compositeText(rows[at] as LeafRow)));
  verifier.finish(Math.max(rows.length, Number(batches.at(-1)?.lastPosition ?? 0)));
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
      { numRuns: 30 },
    );
  });

  test('log verifier: a changed field is located at its row, or in its batch without tiles', () => {
    fc.assert(
      fc.property(
        sizes,
        fc.nat(),
        fc.nat(NAMES.length - 1),
        fc.constantFrom<string | null>('7', 'x', '', null),
        (each, which, column, value) => {
          const made = makeLog(each);
          const at = which % made.rows.length;
          const row = made.rows[at] as LeafRow;
          fc.pre(column !== AT.position && row[column] !== value);
          const rows = made.rows.with(at, row.with(column, value));
          expect(verify({ ...made, rows }, made.leaves).findings[0]).toMatchObject({
            position: at + 1,
            table: 'log',
          });
          const [found] = verify({ ...made, rows }, null).findings;
          const batch = made.batches.find(({ lastPosition }) => Number(lastPosition) > at) as BatchRow;
          expect(found?.position).toBeLessThanOrEqual(at + 1);
          expect(found?.position).toBeGreaterThan(Number(batch.lastPosition) - Number(batch.eventCount));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('log verifier: a missing, doubled or swapped row is located at the first difference', () => {
    fc.assert(
      fc.property(sizes, fc.nat(), fc.constantFrom('gone', 'twice', 'swapped'), (each, which, how) => {
        const made = makeLog(each);
        const at = which % (made.rows.length - 1);
        const [row, next] = [made.rows[at] as LeafRow, made.rows[at + 1] as LeafRow];
        const rows =
          how === 'gone'
            ? made.rows.toSpliced(at, 1)
            : how === 'twice'
              ? made.rows.toSpliced(at, 0, row)
              : made.rows
                  .with(at, next.with(AT.position, String(at + 1)))
                  .with(at + 1, row.with(AT.position, String(at + 2)));
        expect(verify({ ...made, rows }, made.leaves).findings[0]).toMatchObject({
          position: at + 1,
          table: 'log',
        });
      }),
      { numRuns: 100 },
    );
  });

  test('log verifier: a changed field of a batch is reported there, and blames no event', () => {
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
          const at = which % made.batches.length;
          const batch = made.batches[at] as BatchRow;
          const changed = {
            ...batch,
            [field]: field === 'chain' ? Buffer.alloc(32, more) : String(Number(batch[field]) + more),
          };
          const { findings } = verify({ ...made, batches: made.batches.with(at, changed) }, made.leaves);
          expect(findings[0]?.position).toBe(Number(batch.lastPosition) - Number(batch.eventCount) + 1);
          if (field !== 'lastPosition') expect(findings[0]?.table).toBe('log_batch');
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('event rows', () => {
  const text = fc.oneof(
    fc.string({ unit: fc.constantFrom(...'ab "\\(),\n1'.split('')), maxLength: 6 }),
    fc.constant(null),
  );

  test('event row: parses into the columns it was built from', () => {
    fc.assert(
      fc.property(fc.array(text, { minLength: 2, maxLength: 34 }), (fields) => {
        expect(fieldsOf(compositeText(fields))).toEqual(fields);
      }),
    );
  });

  test('event row: the pattern accepts only valid requests', () => {
    fc.assert(
      fc.property(
        fc.nat(200),
        fc.nat(NAMES.length - 1),
        fc.oneof(text, fc.constantFrom('1', '13', '77', 't', '-1')),
        (position, column, value) => {
          const valid = rowOf(
            position + 1,
            '5',
            '1',
            (EVENTS[position % 4] as (typeof EVENTS)[number])(position),
          );
          expect(rowOfText(compositeText(valid))).toMatchObject({ position: position + 1, fields: null });
          const row = rowOfText(compositeText(valid.with(column, value)));
          if (row.fields !== null) return;
          expect(checkEvent(valid.with(column, value))).toEqual({ problem: null, control: null });
          expect(row).toMatchObject({ position: rowOfFields(valid.with(column, value)).position });
        },
      ),
      { numRuns: 500 },
    );
  });

  const BOOLEANS: Readonly<Record<string, string>> = { t: 'true', f: 'false' };
  /** A line of an exported file. */
  const lineOf = (fields: LeafRow): string => {
    const quoted = new Set([
      'request',
      'account',
      'key',
      'model',
      'upstream',
      'stream',
      'body',
      'error_code',
    ]);
    const parts = NAMES.flatMap((name, at) => {
      const field = fields[at];
      if (at === AT.shard || field == null) return [];
      const isNumber = !quoted.has(name) && /^\d+$/.test(field);
      const boolean = name === 'sse' ? BOOLEANS[field] : undefined;
      const value = boolean ?? (isNumber ? field : JSON.stringify(field));
      return `"${name === 'at' ? 'at_us' : name}":${value}`;
    });
    return `{${parts.join(',')}}`;
  };
  const takeLines = (lines: readonly string[]): (EventRow | null)[] => {
    const taken = new JsonRows();
    const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(''));
    return [...lineSpans(bytes)].map(([start, end]) => taken.parseRow(bytes, start, end));
  };

  test('json row: equals the row of its columns, and accepts only valid requests', () => {
    const value = fc.oneof(
      text,
      fc.constantFrom(
        '1',
        '13',
        '77',
        't',
        'f',
        'x',
        '-1',
        '0',
        'é',
        '\u00a0',
        '101',
        'gpt-4o',
        '01900000-0000-7000-8000-000000000000',
      ),
    );
    fc.assert(
      fc.property(
        fc.nat(200),
        fc.array(fc.tuple(fc.integer({ min: 1, max: NAMES.length - 1 }), value), { maxLength: 2 }),
        (position, changes) => {
          const valid = rowOf(
            position + 1,
            '5',
            '1',
            (EVENTS[position % EVENTS.length] as (typeof EVENTS)[number])(position),
          );
          const fields = changes.reduce<LeafRow>(
            (before, [column, changed]) => before.with(column, changed),
            valid,
          );
          const [before, row, after] = takeLines([lineOf(valid), lineOf(fields), lineOf(valid)]);
          const isPlain = [1, 2, 3].includes(position % EVENTS.length);
          expect([before, after].map((each) => each && textOf(each))).toEqual(
            Array(2).fill(isPlain ? compositeText(valid) : null),
          );
          if (row == null) return;
          expect({ ...row, text: textOf(row), fields }).toEqual(rowOfFields(fields));
          expect(checkEvent(fields)).toEqual({ problem: null, control: null });
        },
      ),
      { numRuns: 1_000 },
    );
    const plain =
      '{"position":7,"at_us":5,"type":104,"instance":1,"request":"01900000-0000-7000-8000-000000000000",' +
      '"account":"A","key":"K","status":429,"rejected_count":3,"error_code":"shed"}';
    const [first, cut, more, last] = takeLines([plain, plain.slice(0, -1), `${plain} `, plain]).map(
      (row) => row && textOf(row),
    );
    const commas = (count: number): string => ','.repeat(count);
    const [status, rejectedCount] = [NAMES.indexOf('status'), NAMES.indexOf('rejected_count')];
    const expected =
      '(0,7,5,104,1,01900000-0000-7000-8000-000000000000,A,K' +
      `${commas(status - AT.key)}429${commas(rejectedCount - status)}3,shed)`;
    expect([first, cut, more, last]).toEqual([expected, null, null, expected]);
    expect(takeLines([plain.replace('01900000-', '0190000-')])).toEqual([null]);
    // More rows than one chunk of the arena holds.
    const many = takeLines(Array(2_000).fill(plain)).map((row) => row && textOf(row));
    expect(new Set(many)).toEqual(new Set([expected]));
  });

  const TIME = '2026-11-22 06:58:13.805368+00';
  const MICROSECONDS = '1795330693805368';
  /** A line of COPY, whose last field says whether a text is empty. */
  const copied = (fields: LeafRow): string => {
    const written = fields.map((field, column) =>
      column === AT.at && field === MICROSECONDS
        ? TIME
        : (field ?? '').replace(/[\\,]/g, '\\$&').replaceAll('\n', '\\n'),
    );
    return [...written, fields.includes('') ? 't' : ''].join(',');
  };
  const take = (lines: readonly string[]): CopyRows => {
    const taken = new CopyRows();
    // Concatenated, as they are received.
    const piece = Buffer.from(lines.map((line) => `${line}\n`).join(''));
    let start = 0;
    for (const line of lines) taken.addRow(piece, start, (start += Buffer.byteLength(line) + 1));
    return taken;
  };

  test('copy row: equals the row of its columns, and accepts only valid requests', () => {
    const value = fc.oneof(
      text,
      fc.constantFrom(
        '1',
        '13',
        '77',
        't',
        'x',
        '-1',
        '0',
        'é',
        '\u00a0',
        '101',
        'gpt-4o',
        '01900000-0000-7000-8000-000000000000',
      ),
    );
    fc.assert(
      fc.property(
        fc.nat(200),
        fc.array(fc.tuple(fc.nat(NAMES.length - 1), value), { maxLength: 2 }),
        (position, changes) => {
          const valid = rowOf(
            position + 1,
            MICROSECONDS,
            '1',
            (EVENTS[position % EVENTS.length] as (typeof EVENTS)[number])(position),
          );
          const fields = changes.reduce<LeafRow>(
            (before, [column, changed]) => before.with(column, column === AT.at ? null : changed),
            valid,
          );
          const { rows, isAmbiguous } = take([copied(valid), copied(fields), copied(valid)]);
          expect(isAmbiguous).toBe(fields.includes(''));
          expect(rows[0]).toMatchObject({ position: position + 1, at: MICROSECONDS, instance: '1' });
          expect(rows.map(textOf)).toEqual(
            [valid, ...(isAmbiguous ? [] : [fields]), valid].map((each) => compositeText(each)),
          );
          const row = rows[1] as EventRow;
          if (isAmbiguous) return;
          expect({ ...row, text: textOf(row), fields }).toEqual(rowOfFields(fields));
          if (row.fields === null) expect(checkEvent(fields)).toEqual({ problem: null, control: null });
        },
      ),
      { numRuns: 1_000 },
    );
    const call = rowOf(7, MICROSECONDS, '3', (EVENTS[1] as (typeof EVENTS)[number])(7));
    expect(take([copied(call)]).rows).toMatchObject([{ position: 7, fields: null }]);
  });

  test('copy row: unescapes fields', () => {
    const any = fc.option(
      fc.string({ unit: fc.constantFrom(...'a,\\"\n\t\r\v\f\bn é'.split('')), minLength: 1, maxLength: 6 }),
    );
    const escape = (field: string): string =>
      field.replace(
        /[\\,\b\f\n\r\t\v]/g,
        (character) =>
          `\\${{ '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't', '\v': 'v' }[character] ?? character}`,
      );
    fc.assert(
      fc.property(fc.array(any, { minLength: 1, maxLength: 9 }), (fields) => {
        expect(copyFields(fields.map((field) => escape(field ?? '')).join(','))).toEqual(fields);
      }),
    );
  });

  test('event row: parses any time that Postgres writes to microseconds', () => {
    for (const [time, microseconds] of [
      ['2026-11-22 06:58:13.805368+00', '1795330693805368'],
      ['2026-11-22 07:58:13.8+01', '1795330693800000'],
      ['2026-11-22 12:28:13+05:30', '1795330693000000'],
    ]) {
      expect(microsecondsOf(time as string)).toBe(microseconds);
    }
    const call = rowOf(7, MICROSECONDS, '3', (EVENTS[0] as (typeof EVENTS)[number])(7));
    expect(take([copied(call.with(AT.at, 'infinity'))])).toMatchObject({ rows: [], isAmbiguous: true });
    expect(take([copied(call.with(AT.at, null))])).toMatchObject({
      rows: [{ at: null }],
      isAmbiguous: false,
    });
  });
});
