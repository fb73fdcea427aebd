import fc from 'fast-check';
import type { Usage } from '#db/money.ts';
import { CLIENTS } from '#server/protocols/clients.ts';
import { decoded, literalOf, textIn } from '#server/protocols/literal.ts';
import type { Protocol } from '#server/protocols/protocol.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';
import type { Conversation } from '#server/protocols/conversation.ts';

/** Replies as events, made at random, and what a client finds in them. */

export type Reply = { events: ReplyEvent[]; usage: Usage };

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }).map(literalOf);
const signature = fc.base64String({ minLength: 4, maxLength: 16 });
const name = fc.stringMatching(/^[a-z_]{1,8}$/);
const input = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,6}$/),
  fc.oneof(fc.string({ unit: 'binary', maxLength: 8 }), fc.integer(), fc.constant(null)),
  { maxKeys: 3, noNullPrototype: true },
);
const calls = fc.array(fc.record({ name, input }), { minLength: 1, maxLength: 4 });

type Part =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string; signature: string | null }
  | { type: 'redacted'; data: string }
  | { type: 'calls'; calls: { name: string; input: object }[] };

const parts: fc.Arbitrary<Part[]> = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant('text' as const), text }),
    fc.record({ type: fc.constant('reasoning' as const), text, signature: fc.option(signature) }),
    fc.record({ type: fc.constant('redacted' as const), data: signature }),
    fc.record({ type: fc.constant('calls' as const), calls }),
  ),
  { maxLength: 6 },
);

export const replies: fc.Arbitrary<Reply> = fc
  .record({
    parts,
    reason: fc.constantFrom<FinishReason>('stop', 'length', 'content_filter'),
    input: fc.integer({ min: 1_000, max: 1_000_000 }),
    cached: fc.integer({ min: 0, max: 1_000 }),
    output: fc.integer({ min: 1_000, max: 1_000_000 }),
    reasoning: fc.integer({ min: 0, max: 1_000 }),
  })
  .map(({ parts: said, reason, ...usage }) => ({ events: eventsOf(said, reason), usage }));

/** Fragments of parallel calls alternate. */
function eventsOf(said: readonly Part[], reason: FinishReason): ReplyEvent[] {
  const events: ReplyEvent[] = [{ type: 'start', id: 'c1', model: 'm' }];
  let count = 0;
  for (const part of said) {
    if (part.type === 'text') events.push({ type: 'text', text: part.text });
    else if (part.type === 'redacted') events.push({ type: 'redacted_reasoning', data: part.data });
    else if (part.type === 'reasoning') {
      events.push({ type: 'reasoning', text: part.text });
      if (part.signature !== null) events.push({ type: 'signature', signature: part.signature });
    } else {
      const first = count;
      count += part.calls.length;
      for (const [index, call] of part.calls.entries())
        events.push({
          type: 'tool_call',
          index: first + index,
          id: `call_${first + index}`,
          name: call.name,
        });
      for (const half of [0, 1])
        for (const [index, call] of part.calls.entries()) {
          const json = JSON.stringify(call.input);
          const middle = json.length >> 1;
          const fragment = literalOf(half === 0 ? json.slice(0, middle) : json.slice(middle));
          events.push({ type: 'tool_arguments', index: first + index, text: fragment });
        }
    }
  }
  events.push({ type: 'finish', reason: reason === 'stop' && count > 0 ? 'tool_calls' : reason });
  return events;
}

/** What a client is to find in a reply. */
export type Found = {
  text: string;
  refusal: string;
  reasoning: string;
  signatures: string[];
  redacted: string[];
  calls: { id: string; name: string; input: unknown }[];
  reason: FinishReason | null;
};

export function foundIn(events: readonly ReplyEvent[]): Found {
  const found: Found = {
    text: '',
    refusal: '',
    reasoning: '',
    signatures: [],
    redacted: [],
    calls: [],
    reason: null,
  };
  const inputs: string[] = [];
  for (const event of events) {
    switch (event.type) {
      case 'text':
      case 'refusal':
      case 'reasoning':
        found[event.type] += textIn(event.text);
        break;
      case 'signature':
        found.signatures.push(textIn(event.signature));
        break;
      case 'redacted_reasoning':
        found.redacted.push(textIn(event.data));
        break;
      case 'tool_call':
        found.calls[event.index] = { id: textIn(event.id), name: textIn(event.name), input: null };
        inputs[event.index] = '';
        break;
      case 'tool_arguments':
        inputs[event.index] += event.text;
        break;
      case 'finish':
        found.reason = event.reason;
        break;
      default:
    }
  }
  for (const [index, call] of found.calls.entries())
    call.input = JSON.parse(textIn(inputs[index] ?? '') || '{}') as unknown;
  return found;
}

export const NOTHING_ASKED: Conversation = {
  turns: [],
  tools: [],
  toolChoice: null,
  parallelToolCalls: null,
  reasoningEffort: null,
  temperature: null,
  topP: null,
  stop: [],
  format: null,
};

export const writerOf = (protocol: Protocol, isStreamed: boolean): ReplyWriter =>
  CLIENTS[protocol].writer({
    request: {},
    conversation: NOTHING_ASKED,
    model: 'm',
    createdS: 1,
    isStreamed,
    includeUsage: true,
  });

/** A reply as the stream of an upstream with this protocol. */
export function streamOf(protocol: Protocol, { events, usage }: Reply): Buffer {
  const writer = writerOf(protocol, true);
  return Buffer.from(events.map((event) => writer.take(event)).join('') + writer.end(usage), 'latin1');
}

export function bodyOf(protocol: Protocol, { events, usage }: Reply): Buffer {
  const writer = writerOf(protocol, false);
  for (const event of events) writer.take(event);
  return Buffer.from(decoded(writer.body(usage)));
}

export function chunksOf(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] as number;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}
