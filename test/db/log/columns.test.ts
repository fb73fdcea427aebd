import * as fc from 'fast-check';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { END_REASONS, USAGE_SOURCES } from '#db/events/endings.ts';
import { type Event, type EventOf, REQUEST_TYPES, type RequestEvent } from '#db/events/events.ts';
import { appendRequests } from '#db/log/append.ts';
import {
  BODY_FIELDS,
  AT,
  COLUMNS,
  COLUMNS_ARE_COMPLETE,
  COLUMNS_ARE_FIELDS,
  columnsOf,
  FIELDS,
  type SqlType,
} from '#db/log/columns.ts';
import { cellsOf, textCell } from '#db/log/line.ts';

import { controller } from '../../support/controller.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { anyRequestEvent } from '../../support/log/arbitrary-event.ts';
import { accepted, connectAs, openWriter, readLog, settled } from '../../support/log/log-writer.ts';
import { requestLine } from '../../support/log/request-line.ts';

/** Each place that spells the columns of an event by itself is compared with the list here, by name. */

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  client = await connectAs(database, 'relay');
});
afterAll(async () => {
  await client.end();
  await database[Symbol.asyncDispose]();
});

type Named = { name: string; type: string };
const namesAndTypes = (columns: readonly Named[]): Named[] =>
  columns.map(({ name, type }) => ({ name, type }));

async function attributesOf(relation: string): Promise<Named[]> {
  const { rows } = await client.query<Named>(
    `select attname as name, typname as type from pg_attribute a join pg_type t on t.oid = a.atttypid
       where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
    [relation],
  );
  return rows;
}

test('every field of a request event has a column, and every column of one is a field', () => {
  expect([COLUMNS_ARE_FIELDS, COLUMNS_ARE_COMPLETE]).toEqual([true, true]);
});

describe('in SQL', () => {
  test('daybook.event_fields has the fields of a line, in their order and with their types', async () => {
    expect(await attributesOf('daybook.event_fields')).toEqual(namesAndTypes(FIELDS));
  });

  test('daybook.events returns the columns of an event, in their order and with their types', async () => {
    const { rows } = await client.query<Named>(
      `select name, typname as type from pg_proc p,
          unnest(proargnames, proargmodes, proallargtypes) with ordinality as a(name, mode, arg, number)
          join pg_type t on t.oid = arg
        where p.oid = 'daybook.events'::regproc and mode = 't' order by number`,
    );
    expect(rows).toEqual(namesAndTypes(COLUMNS));
  });

  test('daybook.control_event has columns of an event under their names, with their types', async () => {
    const columns = await attributesOf('daybook.control_event');
    expect(columns.pop()).toEqual({ name: 'line', type: 'text' });
    expect(namesAndTypes(COLUMNS)).toEqual(expect.arrayContaining(columns));
  });

  test('projection.request has each column of a call that lists show, under the same name', async () => {
    const names = new Set((await attributesOf('projection.request')).map(({ name }) => name));
    const ofRequests = COLUMNS.filter((column) => 'needed' in column || 'optional' in column);
    const missing = ofRequests.map(({ name }) => name).filter((name) => !names.has(name));
    expect(missing).toEqual([
      'parents',
      'body',
      'stated_cost_nanousd',
      'credential',
      'answered_model',
      'finish_reason',
      'service_tier',
      'provider_request',
      'prompt_estimate',
      'max_output_tokens',
    ]);
  });
});

describe('a line', () => {
  const text = fc.string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
  });
  const cell = fc.option(fc.oneof(text, fc.constantFrom('', '"', '\\', '""', '\\"', '(,)', ' ')));

  test('quotes every printable text as PostgreSQL does, and is read back', async () => {
    const all = Array.from({ length: 0x7f - 0x20 }, (_, index) => String.fromCharCode(0x20 + index));
    await fc.assert(
      fc.asyncProperty(fc.tuple(cell, cell, cell), async (cells) => {
        const { rows } = await client.query<{ line: string }>(
          'select row($1::text, $2::text, $3::text)::text as line',
          cells,
        );
        const line = `(${cells.map((each) => (each === null ? '' : textCell(each))).join(',')})`;
        expect(line).toBe(rows[0]?.line);
        expect(cellsOf(line)).toEqual(cells);
      }),
      { examples: all.map((character) => [[character, `a${character}`, null]]) },
    );
  });

  test.each(['', '1,2', '(1', '1)', '("a)', '("a"b,)', '(1,"a"",2)'])('is not read from %j', (line) => {
    expect(() => cellsOf(line)).toThrow();
  });

  test('of any event is the text that PostgreSQL makes of its typed fields', async () => {
    await using writer = await openWriter(database);
    const control = controller(writer);
    await writer.append(fc.sample(anyRequestEvent, 200));
    await control(100);
    const { rows } = await client.query(
      'select position, line from daybook.lines() where line::daybook.event_fields::text <> line',
    );
    expect(rows).toEqual([]);
    const fields = FIELDS.map(({ name }) => `e.${name}`).join(', ');
    const typed = await client.query(
      `select position from daybook.events() e join daybook.lines() l using (position)
        where row(${fields})::text <> l.line or (e.at, e.instance) <> (l.at, l.instance)`,
    );
    expect(typed.rows).toEqual([]);
  });

  test('has texts of any length, and integers of any size', () => {
    fc.assert(
      fc.property(text, fc.nat(300), fc.maxSafeInteger(), (part, times, tokens) => {
        const model = part.repeat(times);
        const cells = cellsOf(requestLine(accepted({ model, hold_tokens: tokens })));
        expect([cells[AT.model], cells[AT.hold_tokens]]).toEqual([model, String(tokens)]);
        expect(cells).toHaveLength(FIELDS.length);
      }),
      { examples: [['x', 20_000, -(2 ** 31)]] },
    );
  });

  test.each<[string, RequestEvent]>([
    ['a status beyond 16 bits', settled(accepted(), { status: 2 ** 15 })],
    ['tokens beyond 32 bits', settled(accepted(), { output_tokens: 2 ** 31 })],
    ['tokens below them', settled(accepted(), { output_tokens: -(2 ** 31) })],
    ['a reservation beyond the safe integers', accepted({ hold_tokens: 2 ** 53 })],
    ['a fraction of a token', accepted({ hold_tokens: 0.5 })],
    ['a number that is none', accepted({ body_bytes: Number.NaN })],
    ['a line break in a name', accepted({ model: 'a\nb' })],
    ['a NUL in a name', accepted({ model: 'a\0b' })],
    ['a name that is not ASCII', accepted({ model: 'caf\u00e9' })],
    ['such a name in its body', settled(accepted(), { attempts: [attemptAt('caf\u00e9')] })],
  ])('with %s is refused before anything is sent', async (_, bad) => {
    const sent: unknown[] = [];
    const connection = { query: (...args: unknown[]) => Promise.resolve(sent.push(args)) };
    expect(() => requestLine(bad)).toThrow(RangeError);
    await expect(appendRequests(connection as never, 1, 1, [accepted(), bad])).rejects.toThrow(RangeError);
    expect(sent).toEqual([]);
  });
});

describe('a request event', () => {
  const VALUES = { int2: 3, int4: 70_000, int8: 2 ** 40, bool: true, text: 'abc', uuid: '', timestamptz: '' };
  const OWN: Readonly<Record<string, unknown>> = {
    request: '01900000-0000-7000-8000-000000000001',
    account: 'Account1',
    key: 'Key00001',
    end_reason: Object.keys(END_REASONS)[0],
    usage_source: Object.keys(USAGE_SOURCES)[0],
    route: '/v1/responses',
    attempts: [attemptAt('one')],
    usage_details: { audio_input_tokens: 7, web_searches: 1 },
    unpriced: ['web_search'],
    handed_over: true,
    batch: '01900000-0000-7000-8000-000000000002',
    tags: ['0123456789abcdef'],
    parents: ['Account2', 'Account3'],
    workload: 'builds',
    exchange: 'Exchange',
    expires_at: '2026-11-28T12:00:00.000Z',
    claims: { repository: 'acme/app' },
    observed: [{ subject: 'account/Account1', meter: 'tokens', window: 'day', limit: 9, needed: 2, free: 1 }],
  };
  const fieldsOf = (event: string, { name, type }: { name: string; type: SqlType }): [string, unknown][] => {
    const fields = name === 'body' ? BODY_FIELDS[event as keyof typeof BODY_FIELDS] : [name];
    return fields.map((field) => [field, OWN[field] ?? VALUES[type]]);
  };

  test.each(REQUEST_TYPES)(
    '%s is read as it was appended, with all of its columns and with few',
    async (type) => {
      const { needed, optional } = columnsOf(type);
      const few = { type, ...Object.fromEntries(needed.flatMap((column) => fieldsOf(type, column))) };
      const all = { ...few, ...Object.fromEntries(optional.flatMap((column) => fieldsOf(type, column))) };
      await using writer = await openWriter(database);
      await writer.append([all, few, all] as never);
      const log = await readLog(database);
      expect(log.slice(-3).map(({ event }): Event => event)).toEqual([all, few, all]);
    },
  );
});

function attemptAt(upstream: string): NonNullable<EventOf<'request.settled'>['attempts']>[number] {
  return { upstream, outcome: 'delivered', duration_ms: 5 };
}
