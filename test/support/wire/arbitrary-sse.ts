import * as fc from 'fast-check';
import type { ChatSse } from '#server/providers/openai/sse.ts';

/** One event of a streamed reply as a provider may write it, and everything that is to be found in it. */
export type Event = {
  lines: readonly string[];
  bytes: Buffer;
  hasData: boolean;
  isUsageOnly: boolean;
  /** Whether the model has written something in it. */
  isDelta: boolean;
  isFinish: boolean;
  isError: boolean;
  usage: { input: number; output: number } | null;
};

const NOTHING = {
  hasData: true,
  isUsageOnly: false,
  isDelta: false,
  isFinish: false,
  isError: false,
  usage: null,
};

/** An event of these lines, with the line end given and an empty line behind. */
export function eventOf(lines: readonly string[], lineEnd: string, facts: Partial<Event> = {}): Event {
  const bytes = Buffer.from(lines.map((line) => line + lineEnd).join('') + lineEnd);
  return { ...NOTHING, lines, bytes, ...facts };
}

export const anyEnd = fc.constantFrom('\n', '\r\n', '\r');

/** Short enough to be one token, and full of what a careless reader trips over. */
const word = fc.constantFrom(
  'tok',
  ' the',
  '\u20ac',
  '\u{1f600}',
  '\u00e9\u00e9',
  'a\nb',
  '"',
  '\\',
  '\\"',
  'data:',
  '[DONE]',
  '\n\n',
  '\r\n\r\n',
  '"usage":{',
  '{"error"',
  ' ',
  '\u2028',
  'null',
);

/** JSON as different providers space it. */
const spacing = fc.constantFrom<(value: object) => string>(
  (value) => JSON.stringify(value),
  (value) => JSON.stringify(value).replaceAll('":', '": '),
  (value) => JSON.stringify(value, null, 1).replaceAll('\n', ' ').replaceAll('":', '" :'),
);

const chunk = (delta: object, more: object = {}): object => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, ...more }],
});

type Data = Partial<Event> & { value: object };

const count = fc.nat(100_000);
const usageOf = (input: number, output: number): object => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
});

const delta = fc
  .tuple(word, fc.constantFrom('content', 'reasoning_content', 'reasoning', 'refusal'))
  .map(([text, member]): Data => ({
    value: chunk({ [member]: text }, { finish_reason: null }),
    isDelta: true,
  }));
const toolDelta = word.map((text): Data => ({
  value: chunk({ content: null, tool_calls: [{ index: 0, function: { arguments: text } }] }),
  isDelta: true,
}));
const emptyDelta = fc.constantFrom<Data>(
  { value: chunk({ role: 'assistant', content: '' }) },
  { value: chunk({ role: 'assistant', content: null }) },
  { value: chunk({ tool_calls: [{ index: 0, id: 'call_1', function: { name: 'look', arguments: '' } }] }) },
  { value: chunk({}, { finish_reason: null }) },
  { value: { choices: [], prompt_filter_results: [] } },
  { value: { ...chunk({}), usage: null } },
);
const finish = fc
  .constantFrom('stop', 'length', 'tool_calls')
  .map((reason): Data => ({ value: chunk({}, { finish_reason: reason }), isFinish: true }));
const finishWithUsage = fc.tuple(count, count).map(([input, output]): Data => ({
  value: { ...chunk({}, { finish_reason: 'stop' }), usage: usageOf(input, output) },
  isFinish: true,
  usage: { input, output },
}));
const usageOnly = fc.tuple(count, count).map(([input, output]): Data => ({
  value: { id: 'chatcmpl-1', choices: [], usage: usageOf(input, output) },
  isUsageOnly: true,
  usage: { input, output },
}));
const error = fc.constant<Data>({
  value: { error: { message: 'overloaded', type: 'server_error', code: null } },
  isError: true,
});

const dataEvent = fc
  .tuple(
    fc.oneof(
      { weight: 4, arbitrary: delta },
      toolDelta,
      emptyDelta,
      finish,
      finishWithUsage,
      usageOnly,
      error,
    ),
    spacing,
    fc.constantFrom('data: ', 'data:'),
    anyEnd,
  )
  .map(([{ value, ...facts }, write, prefix, end]) => eventOf([prefix + write(value)], end, facts));

const otherEvent = fc.oneof(
  fc
    // A last CR alone could be half a line end, and a comment at the very end is then omitted.
    .tuple(
      fc.constantFrom([': ping'], [':'], ['event: ping'], ['retry: 10', 'id: 7']),
      fc.constantFrom('\n', '\r\n'),
    )
    .map(([lines, end]) => eventOf(lines, end, { hasData: false })),
  // Blank lines beyond the one that is due; a LF right behind a CR would be a part of that line's end.
  fc.constant(eventOf([''], '\r\n', { hasData: false })),
);

const done = fc
  .tuple(fc.constantFrom('data: [DONE]', 'data:[DONE]'), anyEnd)
  .map(([line, end]) => eventOf([line], end, { isFinish: true }));

export const anyEvent: fc.Arbitrary<Event> = fc.oneof({ weight: 6, arbitrary: dataEvent }, otherEvent, done);

/** Whether a reply of these events is complete by its own words: `[DONE]` says nothing behind an error. */
export function isComplete(events: readonly Event[]): boolean {
  const firstError = events.findIndex(({ isError }) => isError);
  return events.some(
    ({ isFinish, lines }, index) =>
      isFinish &&
      !(lines[0]?.includes('[DONE]') && lines[0].length < 20 && firstError >= 0 && firstError < index),
  );
}

/** Cuts bytes into pieces of these sizes, over and over. */
export function chunksOf(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  let at = 0;
  for (let turn = 0; at < bytes.length; turn++) {
    // A size of zero is an empty chunk, but never all of them.
    const size =
      turn % sizes.length === 0 ? Math.max(1, sizes[0] as number) : (sizes[turn % sizes.length] as number);
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

/** Sends all chunks through and ends. */
export function run(tap: ChatSse, chunks: readonly Buffer[]): { output: Buffer } {
  const out = chunks.map((each) => tap.push(each));
  out.push(tap.flush());
  return { output: Buffer.concat(out.filter((each) => each !== null)) };
}
