import fc from 'fast-check';
import type { Conversation, Turn } from '#server/protocols/conversation.ts';

/** Conversations made at random: texts, images, documents, thoughts, and calls with their results. */

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 });
const name = fc.stringMatching(/^[a-z_]{1,8}$/);
const words = fc.record({ type: fc.constant('text' as const), text });
const image = fc.record({
  type: fc.constant('image' as const),
  url: fc.constantFrom('data:image/png;base64,AAAA', 'https://example.com/a.png'),
  detail: fc.constant(null),
});
const file = fc.record({
  type: fc.constant('document' as const),
  url: fc.constant('data:application/pdf;base64,AAAA'),
  name: fc.constant('a.pdf'),
});
/** A reply that called tools, and their results. */
const exchange = fc
  .array(fc.record({ name, input: fc.dictionary(name, text, { maxKeys: 2, noNullPrototype: true }) }), {
    minLength: 1,
    maxLength: 3,
  })
  .chain((calls) =>
    fc.record({
      text: fc.option(text),
      reasoning: fc.option(fc.record({ text, signature: fc.option(text) })),
      calls: fc.constant(calls),
      results: fc.array(fc.array(fc.oneof(words, image), { maxLength: 2 }), {
        minLength: calls.length,
        maxLength: calls.length,
      }),
    }),
  );
const turns: fc.Arbitrary<Turn[]> = fc
  .array(
    fc.oneof(
      fc
        .array(fc.oneof(words, image, file), { minLength: 1, maxLength: 3 })
        .map((parts) => ({ user: parts })),
      exchange.map((each) => ({ exchange: each })),
    ),
    { maxLength: 5 },
  )
  .map((each) =>
    each.flatMap((one, place): Turn[] => {
      if ('user' in one) return [{ role: 'user', parts: one.user }];
      const { text: said, reasoning, calls, results } = one.exchange;
      const idOf = (index: number): string => `call_${place}_${index}`;
      return [
        {
          role: 'assistant',
          parts: [
            ...(reasoning ? [{ type: 'reasoning' as const, ...reasoning }] : []),
            ...(said === null ? [] : [{ type: 'text' as const, text: said }]),
            ...calls.map(({ name: called, input }, index) => ({
              type: 'tool_call' as const,
              id: idOf(index),
              name: called,
              input: JSON.stringify(input),
              isCustom: false,
            })),
          ],
        },
        { role: 'tool', results: results.map((parts, index) => ({ id: idOf(index), parts })) },
      ];
    }),
  );
export const conversations: fc.Arbitrary<Conversation> = fc.record({
  turns: fc
    .tuple(fc.option(text), turns)
    .map(([system, rest]): Turn[] =>
      system === null ? rest : [{ role: 'system', parts: [{ type: 'text', text: system }] }, ...rest],
    ),
  tools: fc.array(
    fc.record({
      kind: fc.constant('function' as const),
      name,
      description: fc.option(text),
      parameters: fc.constant({ type: 'object', properties: {} }),
      strict: fc.boolean(),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  toolChoice: fc.constantFrom('auto' as const, 'none' as const, 'required' as const, { name: 'f' }),
  parallelToolCalls: fc.constantFrom(false as const, null),
  reasoningEffort: fc.constantFrom('low', 'high', null),
  temperature: fc.constantFrom(0, 0.5, null),
  topP: fc.constantFrom(0.9, null),
  stop: fc.constant([]),
  format: fc.constantFrom(null, {
    type: 'json_schema' as const,
    name: 'reply',
    schema: { type: 'object' },
    strict: true,
  }),
});
