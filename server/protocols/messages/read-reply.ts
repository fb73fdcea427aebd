import { stringOrNull } from '#server/protocols/fields.ts';
import { type Literal, literalOf, quoted } from '#server/protocols/literal.ts';
import type { Delta, FinishReason, ReplyEvent, ReplyReader } from '#server/protocols/reply-events.ts';
import { quickDelta } from '#server/providers/anthropic/delta.ts';
import { asRecord } from '#server/wire/counts.ts';
import { elementsAt, rawAt } from '#server/wire/raw-json.ts';

/** Anthropic's words for the end of a reply; any other ends it as `stop`. */
const FINISHES: ReadonlyMap<unknown, FinishReason> = new Map([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
]);

/** Reads a message of Anthropic's Messages API. Pure. */
export class MessagesReplyReader implements ReplyReader {
  /** The place of each call among the calls, by its block. */
  readonly #calls = new Map<number, number>();
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  quick(event: string): Delta | null {
    const delta = quickDelta(event);
    if (delta === null || delta.inside === '') return null;
    switch (delta.kind) {
      case 'text':
        return { type: 'text', text: delta.inside };
      case 'thinking':
        return { type: 'reasoning', text: delta.inside };
      case 'arguments': {
        const index = this.#calls.get(delta.index);
        return index === undefined ? null : { type: 'tool_arguments', index, text: delta.inside };
      }
    }
  }

  read(value: unknown, json: string): ReplyEvent[] {
    const event = asRecord(value);
    switch (event?.['type']) {
      case 'message_start':
        return [startOf(asRecord(event['message']))];
      case 'content_block_start': {
        const block = asRecord(event['content_block']);
        return block ? this.#begin(Number(event['index']), block, rawAt(json, 'content_block', 'input')) : [];
      }
      case 'content_block_delta':
        return this.#delta(Number(event['index']), asRecord(event['delta']));
      case 'message_delta':
        return finishOf(asRecord(event['delta']));
      case 'message_stop':
        this.#isOver = true;
        return [];
      default:
        return [];
    }
  }

  whole(value: unknown, json: string): ReplyEvent[] {
    const message = asRecord(value);
    const blocks = Array.isArray(message?.['content']) ? (message['content'] as unknown[]) : [];
    const raw = elementsAt(json, 'content');
    const events = blocks.flatMap((each, index) => {
      const block = asRecord(each);
      return block ? this.#begin(index, block, rawAt(raw[index] ?? '', 'input')) : [];
    });
    return [startOf(message), ...events, ...finishOf(message)];
  }

  /** @param input the input of a call, as latin-1 JSON. */
  #begin(index: number, block: Record<string, unknown>, input: string | undefined): ReplyEvent[] {
    switch (block['type']) {
      case 'text':
        return [...textEvents('text', block['text']), ...listOf(block['citations']).flatMap(citationOf)];
      case 'thinking':
        return [...textEvents('reasoning', block['thinking']), ...signatureOf(block['signature'])];
      case 'redacted_thinking':
        return [{ type: 'redacted_reasoning', data: literalOf(stringOrNull(block['data']) ?? '') }];
      case 'tool_use':
        return this.#beginCall(index, block, input);
      default:
        // What tools of the provider's own have done.
        return [];
    }
  }

  /** Some servers with this protocol send the whole input at once. */
  #beginCall(block: number, call: Record<string, unknown>, input: string | undefined): ReplyEvent[] {
    const index = this.#calls.size;
    this.#calls.set(block, index);
    const id = literalOf(stringOrNull(call['id']) ?? `call_${index}`);
    const name = literalOf(stringOrNull(call['name']) ?? 'unnamed');
    const isEmpty = Object.keys(asRecord(call['input']) ?? {}).length === 0;
    return [
      { type: 'tool_call', index, id, name },
      ...(isEmpty ? [] : argumentsOf(index, quoted(input ?? '{}'))),
    ];
  }

  #delta(block: number, delta: Record<string, unknown> | null): ReplyEvent[] {
    switch (delta?.['type']) {
      case 'text_delta':
        return textEvents('text', delta['text']);
      case 'thinking_delta':
        return textEvents('reasoning', delta['thinking']);
      case 'signature_delta':
        return signatureOf(delta['signature']);
      case 'citations_delta':
        return citationOf(delta['citation']);
      case 'input_json_delta': {
        const index = this.#calls.get(block);
        const text = stringOrNull(delta['partial_json']) ?? '';
        // The input of tools that the provider runs isn't relayed.
        return index === undefined || text === '' ? [] : argumentsOf(index, literalOf(text));
      }
      default:
        return [];
    }
  }
}

function startOf(message: Record<string, unknown> | null): ReplyEvent {
  const id = (stringOrNull(message?.['id']) ?? '').replace(/^msg_/, '');
  return { type: 'start', id: literalOf(id), model: literalOf(stringOrNull(message?.['model']) ?? '') };
}

/** @param ending the member `delta` of the last event but one, or a whole message. */
function finishOf(ending: Record<string, unknown> | null): ReplyEvent[] {
  const reason = stringOrNull(ending?.['stop_reason']);
  if (reason === null) return [];
  const refusal = asRecord(ending?.['stop_details'])?.['explanation'];
  return [...textEvents('refusal', refusal), { type: 'finish', reason: FINISHES.get(reason) ?? 'stop' }];
}

const argumentsOf = (index: number, text: Literal): ReplyEvent[] => [{ type: 'tool_arguments', index, text }];

function textEvents(type: 'text' | 'reasoning' | 'refusal', text: unknown): ReplyEvent[] {
  return typeof text === 'string' && text !== '' ? [{ type, text: literalOf(text) }] : [];
}

const signatureOf = (signature: unknown): ReplyEvent[] =>
  typeof signature === 'string' && signature !== ''
    ? [{ type: 'signature', signature: literalOf(signature) }]
    : [];

/** Only sources with an address have a place in other protocols. */
function citationOf(value: unknown): ReplyEvent[] {
  const citation = asRecord(value);
  const url = stringOrNull(citation?.['url']) ?? stringOrNull(citation?.['source']);
  if (url === null || !/^https?:/.test(url)) return [];
  return [
    { type: 'citation', url: literalOf(url), title: literalOf(stringOrNull(citation?.['title']) ?? '') },
  ];
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);
