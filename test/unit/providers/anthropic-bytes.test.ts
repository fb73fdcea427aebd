import { readdirSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ApiError } from '#server/errors/api-error.ts';
import { anyDelta, quickDelta } from '#server/providers/anthropic/delta.ts';
import { dataOf } from '#server/wire/sse.ts';
import { elementsAt, elementsOf, isLiteral, membersOf, rawAt } from '#server/wire/raw-json.ts';
import { readReply } from '#server/providers/anthropic/reply.ts';
import { messagesRequest } from '#server/providers/anthropic/request.ts';
import { MessageSse } from '#server/providers/anthropic/sse.ts';
import {
  callOf,
  CREATED,
  fixture,
  FOLDER,
  runThrough,
  sent,
  toolCalls,
  translated,
} from '../../support/providers/anthropic-calls.ts';
import { requestText } from '../../support/providers/request-text.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';
import { runs } from '../../fuzz/property-runs.ts';

const STREAMS = readdirSync(FOLDER).filter((file) => file.endsWith('.sse'));
const START = 'data: {"type":"message_start","message":{"id":"m","model":"x"}}\n\n';

/** What a reader made of chunks, all of it. */
function whole(chunks: readonly Buffer[]): object {
  const reader = new MessageSse(CREATED, true);
  const output = runThrough(reader, chunks).toString('latin1');
  const { usage, promptUsage, countedTokens, dataEvents, complete, failed } = reader;
  return { output, usage, promptUsage, countedTokens, dataEvents, complete, failed };
}

describe('a reply in any pieces', () => {
  test.each(STREAMS)('%s: comes out as it does in one', (file) => {
    const bytes = fixture(file);
    const inOne = whole([bytes]);
    expect(whole([...bytes].map((byte) => Buffer.of(byte)))).toEqual(inOne);
    const sizes = fc.array(fc.nat(120), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(sizes, (each) => {
        expect(whole(chunksOf(bytes, each))).toEqual(inOne);
      }),
      { numRuns: 12 },
    );
  });
});

/** The text of a JSON string, in the many ways to write one. */
const literal = fc
  .array(
    fc.constantFrom(
      'a',
      ' tide',
      '\u6f6e',
      '\u{1f30a}',
      '\\n',
      '\\"',
      '\\\\',
      '\\u20ac',
      '\\ud83c\\udf0a',
      '\\/',
      '}',
      '{',
      ',',
      ':',
      '\\"}',
      '[DONE]',
    ),
    { maxLength: 8 },
  )
  .map((parts) => parts.join(''));
const padding = fc.constantFrom('', ' ', '          ');
const KINDS = [
  ['text_delta', 'text'],
  ['input_json_delta', 'partial_json'],
  ['thinking_delta', 'thinking'],
] as const;
const usual = fc
  .tuple(fc.constantFrom(...KINDS), fc.nat(300), literal, padding, padding, fc.constantFrom('\n\n', ' \n\n'))
  .map(
    ([[type, name], index, text, one, two, end]) =>
      'event: content_block_delta\n' +
      `data: {"type":"content_block_delta","index":${index},` +
      `"delta":{"type":"${type}","${name}":"${text}"${one}}${two}}${end}`,
  );

describe('the short way of reading a delta', () => {
  test('is taken for the usual spelling and reads what the long way does', () => {
    let taken = 0;
    const tried = runs(500);
    fc.assert(
      fc.property(usual, (event) => {
        const bytes = Buffer.from(event).toString('latin1');
        const quick = quickDelta(bytes);
        if (quick) taken++;
        expect(quick).toEqual(anyDelta(membersOf(dataOf(bytes) ?? '')));
      }),
      tried,
    );
    expect(taken).toBeGreaterThan(0.95 * tried.numRuns);
  });

  test('never takes everything that is no JSON, or has more in it', () => {
    const damaged = fc
      .tuple(usual, fc.nat(), fc.constantFrom('', '"', '\\', '}', ',"x":"y"', '\u0001', '\\x', '\\u12', '0'))
      .map(([event, at, put]) => {
        const place = 60 + (at % (event.length - 60));
        return event.slice(0, place) + put + event.slice(place + (at % 2));
      });
    fc.assert(
      fc.property(damaged, (event) => {
        const quick = quickDelta(event);
        if (!quick) return;
        const data = dataOf(event) ?? '';
        expect(JSON.parse(data)).toMatchObject({ type: 'content_block_delta', index: quick.index });
        expect(quick).toEqual(anyDelta(membersOf(data)));
      }),
      runs(500),
    );
  });

  test('and the long one make the same chunks of a whole reply', () => {
    fc.assert(
      fc.property(fc.array(usual, { maxLength: 10 }), (events) => {
        const calls = Array.from({ length: 301 }, (_, index) => index).filter((index) =>
          events.some((each) => each.includes(`"index":${index},"delta":{"type":"input`)),
        );
        const start =
          START +
          calls
            .map(
              (index) =>
                `data: {"type":"content_block_start","index":${index},` +
                '"content_block":{"type":"tool_use","id":"t","name":"n"}}\n\n',
            )
            .join('');
        const respelled = events.map((event) =>
          event.replace('event: content_block_delta\n', '').replace('{"type"', '{ "type"'),
        );
        expect(whole([Buffer.from(start + respelled.join(''))])).toEqual(
          whole([Buffer.from(start + events.join(''))]),
        );
      }),
      runs(100),
    );
  });
});

test('the parts of a JSON text are cut out as they stand', () => {
  const spaced = fc.tuple(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(undefined, 1, '\t'));
  fc.assert(
    fc.property(spaced, ([value, indent]) => {
      const text = JSON.stringify(value, null, indent);
      const members = membersOf(text);
      expect([...members.keys()].toSorted()).toEqual(Object.keys(value).toSorted());
      for (const [name, part] of members) {
        expect(text).toContain(part);
        expect(JSON.parse(part)).toEqual(JSON.parse(JSON.stringify(value[name])));
      }
      const list = JSON.stringify(Object.values(value), null, indent);
      expect(elementsOf(list).map((each) => JSON.parse(each) as unknown)).toEqual(JSON.parse(list));
      const nested = JSON.stringify([0, { other: [value], [' "\n']: [list, value] }], null, indent);
      for (const [name, part] of membersOf(JSON.stringify(value)))
        expect(JSON.parse(rawAt(nested, 1, ' "\n', 1, name) ?? '')).toEqual(JSON.parse(part));
      expect(rawAt(nested, 1, ' "\n', 2)).toBeUndefined();
      expect(elementsAt(nested, 1, ' "\n').map((each) => JSON.parse(each) as unknown)).toEqual([
        list,
        JSON.parse(JSON.stringify(value)),
      ]);
      for (const path of [['missing'], [1, 'missing'], [1, 'other', 0, 0], [0, 0]])
        expect([rawAt(nested, ...path), ...elementsAt(nested, ...path)]).toEqual([undefined]);
    }),
  );
});

test('an event has the same data in the usual form as in any other', () => {
  const line = fc.constantFrom('event: a', 'data: {"a":"b"}', 'data:1', 'data', ': data:', 'id: data: 2', '');
  fc.assert(
    fc.property(fc.array(line, { maxLength: 4 }), (lines) => {
      const data = lines.filter((each) => each.startsWith('data:')).map((each) => each.slice(5).trimStart());
      const expected = data.length === 0 ? null : data.join('\n');
      for (const end of ['\n', '\r\n', '\r']) expect(dataOf(`${lines.join(end)}${end}${end}`)).toBe(expected);
    }),
    runs(500),
  );
});

test('a long text with many escapes is a literal as a short one is', () => {
  for (const escaped of [String.raw`\"`, String.raw`\\`, String.raw`\n`, String.raw`\u20ac`]) {
    expect(isLiteral(escaped.repeat(20_000))).toBe(true);
    expect(isLiteral(`${escaped.repeat(20_000)}\\`)).toBe(false);
    expect(isLiteral(`${escaped.repeat(20_000)}\\x`)).toBe(false);
  }
});

/** Arguments as models write them: JSON objects with numbers and spacing that parsing would not keep. */
const argumentsText = fc
  .tuple(
    fc.dictionary(fc.string(), fc.oneof(fc.string({ unit: 'grapheme' }), fc.boolean())),
    fc.bigInt(),
    fc.constantFrom(' ', '', '\n\t'),
  )
  .map(
    ([value, big, blank]) =>
      `{"id":${blank}${big},${blank}"2":-0,"more":${JSON.stringify(value, null, blank)}}`,
  );

describe("a tool call's arguments", () => {
  const back = (calls: object[]): string[] => {
    const { text } = sent({ messages: [{ role: 'assistant', tool_calls: calls }] });
    const message = membersOf(elementsOf(membersOf(text).get('messages') ?? '')[0] ?? '');
    return elementsOf(message.get('content') ?? '').map((block) => membersOf(block).get('input') ?? '');
  };

  test('go to a client and come back byte for byte, in a JSON reply', () => {
    fc.assert(
      fc.property(fc.array(argumentsText, { minLength: 1, maxLength: 3 }), (inputs) => {
        const blocks = inputs.map(
          (input, index) => `{"type":"tool_use","id":"t${index}","name":"n","input":${input}}`,
        );
        const reply = readReply(Buffer.from(`{"content":[${blocks.join(',')}]}`), CREATED);
        const { choices } = JSON.parse(reply?.bytes.toString() ?? '') as {
          choices: [{ message: { tool_calls: { function: { arguments: string } }[] } }];
        };
        const calls = choices[0].message.tool_calls;
        expect(calls.map((each) => each.function.arguments)).toEqual(inputs);
        expect(back(calls)).toEqual(inputs);
      }),
    );
  });

  test('and in a streamed one, in any fragments', () => {
    fc.assert(
      fc.property(
        argumentsText,
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (input, sizes) => {
          const characters = Array.from(input);
          const fragments: string[] = [];
          for (let at = 0, turn = 0; at < characters.length; turn++) {
            const size = sizes[turn % sizes.length] as number;
            fragments.push(characters.slice(at, at + size).join(''));
            at += size;
          }
          const delta = (text: string): string =>
            'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,' +
            `"delta":{"type":"input_json_delta","partial_json":${JSON.stringify(text)}}}\n\n`;
          const opened =
            'data: {"type":"content_block_start","index":1,' +
            '"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}\n\n';
          const stream = [START, opened, ...fragments.map(delta)].join('');
          const calls = toolCalls(translated(Buffer.from(stream)).client.events);
          expect(calls.map((each) => each.function.arguments)).toEqual([input]);
          expect(back(calls)).toEqual([input]);
        },
      ),
    );
  });
});

test('any list of messages is translated or refused by a field, and nothing is thrown', () => {
  const awkward = [
    null,
    0,
    -1,
    1.5,
    true,
    '',
    ' ',
    'x',
    '\ud800',
    '{"a":1}',
    '{',
    [],
    [null],
    ['a', 2],
    [{}],
    {},
    { type: 'x' },
    { type: 'function', function: { name: 'n' } },
    { type: 'reasoning.text', text: 1 },
  ];
  const anything = fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom<unknown>(...awkward) },
    fc.jsonValue({ maxDepth: 2 }),
  );
  const content = fc.oneof(
    fc.string(),
    fc.constant(null),
    anything,
    fc.array(
      fc.oneof(
        fc.record({ type: fc.constant('text'), text: fc.string() }),
        fc.record({
          type: fc.constant('image_url'),
          image_url: fc.oneof(fc.record({ url: fc.webUrl() }), anything),
        }),
        fc.record({ type: fc.constantFrom('file', 'input_audio', 'refusal'), file: anything }),
        anything,
      ),
      { maxLength: 3 },
    ),
  );
  const call = fc.oneof(
    fc.record({
      id: fc.string(),
      type: fc.constant('function'),
      function: fc.record({
        name: fc.string(),
        arguments: fc.oneof(
          fc.constantFrom('', '{}', '[1]', '{"a":', '{"a":1e999}'),
          fc.string(),
          argumentsText,
        ),
      }),
    }),
    anything,
  );
  const message = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record(
        {
          role: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool', 'other'),
          content,
          name: fc.string(),
          tool_call_id: fc.string(),
          tool_calls: fc.array(call, { maxLength: 2 }),
          reasoning_details: anything,
          cache_control: anything,
        },
        { requiredKeys: ['role'] },
      ),
    },
    anything,
  );
  const more = fc.record(
    {
      tools: anything,
      tool_choice: anything,
      stop: anything,
      response_format: anything,
      thinking: anything,
      reasoning_effort: anything,
      temperature: anything,
      metadata: anything,
      other: anything,
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.array(message, { maxLength: 5 }), more, (messages, rest) => {
      const request = messagesRequest(callOf({ messages, ...rest }));
      if (request instanceof ApiError)
        expect(request).toMatchObject({ status: 400, param: expect.any(String) as string });
      else expect(JSON.parse(requestText(request))).toMatchObject({ model: 'claude-sonnet-5' });
    }),
    runs(250),
  );
});
