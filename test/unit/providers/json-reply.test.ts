import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { PARSED_WHOLE_BYTES_MAX } from '#server/wire/bounds.ts';

const reason = fc.constantFrom('stop', 'length', 'error', null, 'ende gut ✓');
const choice = fc.record(
  { message: fc.record({ content: fc.string({ unit: 'binary' }) }), finish_reason: reason },
  { requiredKeys: ['message'] },
);
const usage = fc.record(
  {
    prompt_tokens: fc.oneof(fc.nat(), fc.constant(-1)),
    completion_tokens: fc.nat(),
    total_tokens: fc.nat(),
    cost: fc.constantFrom(0.25, '1', { total_cost: 0.5 }),
    service_tier: fc.constantFrom('flex', 'hübsch'),
  },
  { requiredKeys: [] },
);
const reply = fc.record(
  {
    id: fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.integer()),
    model: fc.oneof(fc.string(), fc.constant(null)),
    service_tier: fc.constantFrom('default', '', 'größer', 5),
    object: fc.constantFrom('chat.completion', 'error'),
    error: fc.constantFrom(null, '', 'overloaded', { message: 'overloaded' }, [], 5),
    choices: fc.oneof(fc.array(choice, { maxLength: 3 }), fc.constantFrom(null, {}, 'text')),
    usage: fc.oneof(usage, fc.constant(null)),
    x_groq: fc.record({ usage }),
  },
  { requiredKeys: [] },
);

/** What it says, without what only the same bytes have. */
const said = (bytes: Buffer): unknown => {
  const parsed = parseJsonReply(bytes);
  return parsed && { ...parsed, bytes: null, text: null, outputBytes: null };
};

/** The same reply, too large to be parsed whole. */
const large = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(PARSED_WHOLE_BYTES_MAX, ' ')]);

test('a small reply says the same as a large one', () => {
  fc.assert(
    fc.property(reply, (members) => {
      const bytes = Buffer.from(JSON.stringify(members));
      expect(said(bytes)).toEqual(said(large(bytes)));
    }),
    { numRuns: 500 },
  );
});

test('the size of what the model has written is that of the choices', () => {
  const choices = [{ message: { content: 'eight "words"\nof text' } }, { message: { content: 'more' } }];
  const bytes = Buffer.from(JSON.stringify({ id: 'reply', choices, usage: { prompt_tokens: 5 } }));
  for (const each of [bytes, large(bytes)])
    expect(parseJsonReply(each)?.outputBytes()).toBe(JSON.stringify(choices).length);
  expect(parseJsonReply(Buffer.from('{"data":[]}'))?.outputBytes()).toBe(0);
});

test.each(['', '[]', '"text"', '{"choices":[}', '{} {}', '\ufeff{}'])('%j is no reply', (text) => {
  const bytes = Buffer.from(text);
  expect([parseJsonReply(bytes), parseJsonReply(large(bytes))]).toEqual([null, null]);
});

test('bytes that are not UTF-8 are no reply', () => {
  const bytes = Buffer.from('{"choices":[{"message":{"content":"\xff"}}]}', 'latin1');
  expect([parseJsonReply(bytes), parseJsonReply(large(bytes))]).toEqual([null, null]);
});
