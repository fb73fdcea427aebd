import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { GeminiReplyWriter } from '#server/protocols/gemini/write-reply.ts';
import { MessagesReplyWriter } from '#server/protocols/messages/write-reply.ts';
import type { ReplyWriter } from '#server/protocols/reply-events.ts';
import { decoded } from '#server/protocols/literal.ts';
import { ResponsesReplyWriter } from '#server/protocols/responses/write-reply.ts';
import { ChatReplyReader } from '#server/protocols/chat/read-reply.ts';
import { TranslatedSse } from '#server/protocols/translated-sse.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';

/** Any reply of a chat, in any chunks and cut at any byte, as clients of other protocols read it. */

type Part =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'calls'; calls: { name: string; input: object }[] };
type Generated = { parts: Part[]; finish: string; input: number; output: number };

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 });
const input = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,6}$/),
  fc.oneof(text, fc.integer(), fc.constant(null)),
  {
    maxKeys: 3,
    noNullPrototype: true,
  },
);
const calls = fc.array(fc.record({ name: fc.stringMatching(/^[a-z_]{1,8}$/), input }), {
  minLength: 1,
  maxLength: 4,
});
const replies: fc.Arbitrary<Generated> = fc.record({
  parts: fc.array(
    fc.oneof(
      fc.record({ type: fc.constant('text' as const), text }),
      fc.record({ type: fc.constant('reasoning' as const), text }),
      fc.record({ type: fc.constant('calls' as const), calls }),
    ),
    { maxLength: 6 },
  ),
  finish: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter'),
  input: fc.integer({ min: 1, max: 1_000_000 }),
  output: fc.integer({ min: 1, max: 1_000_000 }),
});

/** What a client is to find in a reply. */
type Found = {
  text: string;
  reasoning: string;
  calls: { id: string; name: string; input: unknown }[];
  usage: { input: number; output: number };
  isWhole: boolean;
};

const callsOf = ({ parts }: Generated) => parts.flatMap((part) => (part.type === 'calls' ? part.calls : []));
const joined = ({ parts }: Generated, type: 'text' | 'reasoning'): string =>
  parts.map((part) => (part.type === type ? part.text : '')).join('');
const expected = (reply: Generated): Found => ({
  text: joined(reply, 'text'),
  reasoning: joined(reply, 'reasoning'),
  calls: callsOf(reply).map(({ name, input: given }, index) => ({ id: `call_${index}`, name, input: given })),
  usage: { input: reply.input, output: reply.output },
  isWhole: true,
});

const usageOf = ({ input: prompt_tokens, output: completion_tokens }: Generated) => ({
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
});

/** The reply as a stream. Fragments of parallel calls alternate. */
function streamOf(reply: Generated): Buffer {
  let count = 0;
  const deltas = reply.parts.flatMap((part): object[] => {
    if (part.type === 'text') return [{ content: part.text }];
    if (part.type === 'reasoning') return [{ reasoning_content: part.text }];
    const first = count;
    count += part.calls.length;
    const starts = part.calls.map(({ name }, index) => ({
      tool_calls: [
        { index: first + index, id: `call_${first + index}`, type: 'function', function: { name } },
      ],
    }));
    const halves = [0, 1].flatMap((half) =>
      part.calls.map(({ input: given }, index) => {
        const json = JSON.stringify(given);
        const middle = json.length >> 1;
        const fragment = half === 0 ? json.slice(0, middle) : json.slice(middle);
        return { tool_calls: [{ index: first + index, function: { arguments: fragment } }] };
      }),
    );
    return [...starts, ...halves];
  });
  const chunk = (members: object): string =>
    `data: ${JSON.stringify({ id: 'c1', model: 'm', ...members })}\n\n`;
  const choice = (delta: object, finish_reason: string | null = null): string =>
    chunk({ choices: [{ index: 0, delta, finish_reason }] });
  return Buffer.from(
    choice({ role: 'assistant', content: '' }) +
      deltas.map((delta) => choice(delta)).join('') +
      choice({}, reply.finish) +
      chunk({ choices: [], ...usageOf(reply) }) +
      'data: [DONE]\n\n',
  );
}

function completionOf(reply: Generated): object {
  const tool_calls = callsOf(reply).map(({ name, input: given }, index) => ({
    id: `call_${index}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(given) },
  }));
  const message = {
    role: 'assistant',
    content: joined(reply, 'text'),
    reasoning_content: joined(reply, 'reasoning'),
    ...(tool_calls.length > 0 && { tool_calls }),
  };
  return {
    id: 'c1',
    model: 'm',
    choices: [{ index: 0, message, finish_reason: reply.finish }],
    ...usageOf(reply),
  };
}

type Data = Record<string, unknown> & { type: string };
type Block = { text: string; shape: Record<string, unknown> };

function eventsOf(stream: string): Data[] {
  return stream
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => {
      const [name, data, ...more] = event.split('\n');
      const parsed = JSON.parse((data ?? '').slice('data: '.length)) as Data;
      expect([name, more]).toEqual([`event: ${parsed.type}`, []]);
      return parsed;
    });
}

/** A streamed message as an SDK accumulates it: deltas belong to blocks that are open. */
function readMessage(stream: string): Found {
  const blocks: Block[] = [];
  const open = new Set<number>();
  let usage = { input: 0, output: 0 };
  const events = eventsOf(stream);
  for (const event of events) {
    const index = event['index'] as number;
    if (event.type === 'content_block_start') {
      expect(index).toBe(blocks.length);
      open.add(index);
      blocks.push({ text: '', shape: event['content_block'] as Record<string, unknown> });
    } else if (event.type === 'content_block_delta') {
      expect(open.has(index)).toBe(true);
      const delta = event['delta'] as Record<string, string>;
      (blocks[index] as Block).text += delta['text'] ?? delta['thinking'] ?? delta['partial_json'] ?? '';
    } else if (event.type === 'content_block_stop') expect(open.delete(index)).toBe(true);
    else if (event.type === 'message_delta') usage = anthropicUsage(event['usage']);
  }
  const isWhole = events.at(-1)?.type === 'message_stop';
  if (isWhole) expect(open.size).toBe(0);
  return foundIn(
    blocks.map(({ text: inside, shape }) => ({
      ...shape,
      text: inside,
      thinking: inside,
      ...(shape['type'] === 'tool_use' &&
        isWhole && { input: JSON.parse(inside === '' ? '{}' : inside) as unknown }),
    })),
    usage,
    isWhole,
  );
}

function anthropicUsage(usage: unknown): Found['usage'] {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens } =
    usage as Record<string, number>;
  return {
    input: (input_tokens ?? 0) + (cache_read_input_tokens ?? 0) + (cache_creation_input_tokens ?? 0),
    output: output_tokens ?? 0,
  };
}

function foundIn(content: Record<string, unknown>[], usage: Found['usage'], isWhole: boolean): Found {
  const textOf = (type: string, name: string): string =>
    content.map((block) => (block['type'] === type ? (block[name] as string) : '')).join('');
  return {
    text: textOf('text', 'text'),
    reasoning: textOf('thinking', 'thinking'),
    calls: content
      .filter(({ type }) => type === 'tool_use')
      .map((block) => ({ id: block['id'] as string, name: block['name'] as string, input: block['input'] })),
    usage,
    isWhole,
  };
}

type GeminiPart = {
  text?: string;
  thought?: boolean;
  functionCall?: { id: string; name: string; args: object };
};
type GeminiReply = {
  candidates: { content: { parts: GeminiPart[] }; finishReason?: string }[];
  usageMetadata?: { promptTokenCount: number; candidatesTokenCount: number; thoughtsTokenCount: number };
};

/** The parts of all responses of a stream. */
function geminiFound(responses: readonly GeminiReply[]): Found {
  const parts = responses.flatMap(({ candidates }) => candidates[0]?.content.parts ?? []);
  const textOf = (isThought: boolean): string =>
    parts.map((part) => ((part.thought ?? false) === isThought ? (part.text ?? '') : '')).join('');
  const last = responses.at(-1);
  const usage = last?.usageMetadata;
  return {
    text: textOf(false),
    reasoning: textOf(true),
    calls: parts.flatMap(({ functionCall: call }) =>
      call ? [{ id: call.id, name: call.name, input: call.args }] : [],
    ),
    usage: {
      input: usage?.promptTokenCount ?? 0,
      output: (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0),
    },
    isWhole: last?.candidates[0]?.finishReason !== undefined,
  };
}

function readGemini(stream: string): Found {
  const events = stream.split('\n\n').filter((event) => event !== '');
  return geminiFound(events.map((event) => JSON.parse(event.slice('data: '.length)) as GeminiReply));
}

type Item = Record<string, unknown> & { type: string };
type Response = { output: Item[]; usage: { input_tokens: number; output_tokens: number } | null };

function responseFound({ output, usage }: Response): Found {
  const textIn = (type: string, member: string): string =>
    output
      .filter((item) => item.type === type)
      .flatMap((item) => item[member] as { text: string }[])
      .map((part) => part.text)
      .join('');
  return {
    text: textIn('message', 'content'),
    reasoning: textIn('reasoning', 'summary'),
    calls: output
      .filter(({ type }) => type === 'function_call')
      .map((item) => ({
        id: item['call_id'] as string,
        name: item['name'] as string,
        input: JSON.parse(item['arguments'] as string) as unknown,
      })),
    usage: { input: usage?.input_tokens ?? 0, output: usage?.output_tokens ?? 0 },
    isWhole: true,
  };
}

/** The items of a streamed response, which its last event repeats; deltas add up to them. */
function readResponse(stream: string): Found {
  const events = eventsOf(stream);
  expect(events.map((event) => event['sequence_number'])).toEqual(events.map((_, index) => index));
  const last = events.at(-1);
  if (last?.type !== 'response.completed' && last?.type !== 'response.incomplete')
    return { text: '', reasoning: '', calls: [], usage: { input: 0, output: 0 }, isWhole: false };
  const response = last['response'] as Response;
  const items: Item[] = [];
  for (const event of events)
    if (event.type === 'response.output_item.done')
      items[event['output_index'] as number] = event['item'] as Item;
  expect(items).toEqual(response.output);
  const deltas = events
    .filter(({ type }) => type === 'response.output_text.delta')
    .map((event) => event['delta'] as string);
  expect(deltas.join('')).toBe(responseFound(response).text);
  return responseFound(response);
}

const PROTOCOLS: Record<
  string,
  {
    writer: (isStreamed: boolean) => ReplyWriter;
    stream: (text: string) => Found;
    whole: (body: never) => Found;
  }
> = {
  messages: {
    writer: (isStreamed) => new MessagesReplyWriter('m', isStreamed),
    stream: readMessage,
    whole: ({ content, usage }: { content: Record<string, unknown>[]; usage: unknown }) =>
      foundIn(content, anthropicUsage(usage), true),
  },
  responses: {
    writer: (isStreamed) =>
      new ResponsesReplyWriter({ request: {}, customTools: new Set(), model: 'm', createdS: 1, isStreamed }),
    stream: readResponse,
    whole: responseFound,
  },
  gemini: {
    writer: (isStreamed) => new GeminiReplyWriter('m', isStreamed),
    stream: readGemini,
    whole: (body: GeminiReply) => geminiFound([body]),
  },
};

const errorEvent = (eventsBefore: number): string =>
  `event: error\ndata: {"type":"error","sequence_number":${eventsBefore}}\n\n`;

function translate(writer: ReplyWriter, chunks: readonly Buffer[]): { reader: TranslatedSse; text: string } {
  const reader = new TranslatedSse(new ChatSse(false), new ChatReplyReader(), writer, errorEvent);
  return { reader, text: chunks.map((chunk) => reader.push(chunk)?.toString() ?? '').join('') };
}

function chunksOf(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] as number;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

describe.each(Object.entries(PROTOCOLS))('a reply to a client of %s', (_, { writer, stream, whole }) => {
  const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 5 });

  test('has every text, thought and call of the chat, and its usage, in any chunks', () => {
    fc.assert(
      fc.property(replies, sizes, (reply, lengths) => {
        const { reader, text: sent } = translate(writer(true), chunksOf(streamOf(reply), lengths));
        expect(stream(sent)).toEqual(expected(reply));
        expect([reader.complete, reader.failed, reader.flush()]).toEqual([true, false, null]);
      }),
    );
  });

  test('is the same where it is not streamed', () => {
    fc.assert(
      fc.property(replies, (reply) => {
        const written = writer(false);
        for (const event of new ChatReplyReader().whole(completionOf(reply))) written.take(event);
        const body = JSON.parse(
          decoded(written.body({ input: reply.input, cached: 0, output: reply.output, reasoning: 0 })),
        ) as never;
        expect(whole(body)).toEqual(expected(reply));
      }),
    );
  });

  test('that is cut at any byte has whole events and ends as complete only if the chat did', () => {
    fc.assert(
      fc.property(replies, sizes, fc.double({ min: 0, max: 1, noNaN: true }), (reply, lengths, share) => {
        const bytes = streamOf(reply);
        const cut = bytes.subarray(0, Math.floor(bytes.length * share));
        const { reader, text: sent } = translate(writer(true), chunksOf(cut, lengths));
        const rest = (reader.complete ? reader.close() : reader.flush())?.toString() ?? '';
        expect(stream(sent + rest).isWhole).toBe(reader.complete);
        expect(reader.insideEvent).toBe(false);
      }),
    );
  });

  test('that the upstream ends with an error has one error, and nothing behind it', () => {
    fc.assert(
      fc.property(replies, sizes, (reply, lengths) => {
        const [head = ''] = streamOf(reply).toString().split('"finish_reason":"');
        const begun = head.slice(0, head.lastIndexOf('data: '));
        const bytes = Buffer.from(`${begun}data: {"error":{"message":"no"}}\n\ndata: [DONE]\n\n`);
        const { reader, text: sent } = translate(writer(true), chunksOf(bytes, lengths));
        expect(sent.split('event: error').length).toBe(2);
        expect(sent.trimEnd().split('\n\n').at(-1)).toMatch(/^event: error\n/);
        expect([reader.failed, reader.complete, reader.flush()]).toEqual([true, false, null]);
      }),
    );
  });
});

describe('calls in the odd forms of some upstreams', () => {
  const read = (...fragments: object[]): unknown[] => {
    const reader = new ChatReplyReader();
    const message = (tool_calls: object): object => ({ id: 'c', choices: [{ delta: { tool_calls } }] });
    return fragments
      .flatMap((each) => reader.read(message([each]), ''))
      .filter(({ type }) => type !== 'start');
  };

  test('with one number for all are told apart by their ids', () => {
    const of = (id: string): object => ({ index: 0, id, function: { name: 'f', arguments: '{}' } });
    expect(read(of('a'), of('b'))).toEqual([
      { type: 'tool_call', index: 0, id: 'a', name: 'f' },
      { type: 'tool_arguments', index: 0, text: '{}' },
      { type: 'tool_call', index: 1, id: 'b', name: 'f' },
      { type: 'tool_arguments', index: 1, text: '{}' },
    ]);
  });

  test('with the name behind the first arguments lose none of them', () => {
    expect(
      read(
        { index: 0, id: 'a', function: { arguments: '{' } },
        { index: 0, function: { name: 'f', arguments: '}' } },
      ),
    ).toEqual([
      { type: 'tool_call', index: 0, id: 'a', name: 'f' },
      { type: 'tool_arguments', index: 0, text: '{}' },
    ]);
  });

  test('without an id get one', () => {
    expect(read({ function: { name: 'f' } })).toEqual([
      { type: 'tool_call', index: 0, id: 'call_c_0', name: 'f' },
    ]);
  });
});
