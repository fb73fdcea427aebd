import { customFragment } from '#server/protocols/custom-tools.ts';
import { stringOrNull } from '#server/protocols/fields.ts';
import { literalOf } from '#server/protocols/literal.ts';
import { REDACTED } from '#server/protocols/responses/read-request.ts';
import type { FinishReason, ReplyEvent, ReplyReader } from '#server/protocols/reply-events.ts';
import { asRecord } from '#server/wire/counts.ts';

/**
 * Events from which nothing is read: beginnings of parts, and the whole text behind its deltas. Some are as
 * large as the request or the reply.
 */
const UNREAD_TYPES = [
  'in_progress',
  'content_part.added',
  'content_part.done',
  'output_text.done',
  'refusal.done',
  'reasoning_text.done',
  'reasoning_summary_text.done',
  'reasoning_summary_part.done',
  'function_call_arguments.done',
  'custom_tool_call_input.done',
];
const UNREAD_TYPE = UNREAD_TYPES.map((type) => RegExp.escape(type)).join('|');
const UNREAD = new RegExp(
  String.raw`(?:event:[^\r\n]*\n)?data: ?\{"type": ?"response\.(?:${UNREAD_TYPE})"`,
  'y',
);

/** A call, by the place of its item. @property hasInput whether a part of its input was read. */
type Call = { index: number; isCustom: boolean; hasInput: boolean };

/**
 * Reads a response of OpenAI's Responses API. Servers differ in which events they send, so that an item that
 * is done, or a response, is read for what its deltas lacked. Pure.
 */
export class ResponsesReplyReader implements ReplyReader {
  readonly #mark: string;
  #hasStarted = false;
  /** Calls by the place of their item; null: an item of another type. */
  readonly #items = new Map<number, Call | null>();
  /** The places of the items that are done, and those of which text was read. */
  readonly #done = new Set<number>();
  readonly #written = new Set<number>();
  #calls = 0;
  #isOver = false;

  /** @param mark put before each signature. */
  constructor(mark: string) {
    this.#mark = mark;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  isUnread(event: string): boolean {
    UNREAD.lastIndex = 0;
    return UNREAD.test(event);
  }

  read(value: unknown): ReplyEvent[] {
    const event = asRecord(value);
    const place = Number(event?.['output_index'] ?? 0);
    const item = asRecord(event?.['item']);
    const delta = stringOrNull(event?.['delta']);
    switch (event?.['type']) {
      case 'response.created':
        return this.#start(asRecord(event['response']));
      case 'response.output_item.added':
        return item ? this.#begin(place, item) : [];
      case 'response.output_text.delta':
        return this.#delta(place, 'text', delta);
      case 'response.refusal.delta':
        return this.#delta(place, 'refusal', delta);
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return this.#delta(place, 'reasoning', delta);
      case 'response.reasoning_summary_part.added':
        return Number(event['summary_index']) > 0 ? this.#delta(place, 'reasoning', '\n\n') : [];
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        return this.#input(place, delta ?? '');
      case 'response.output_text.annotation.added':
        return citation(asRecord(event['annotation']));
      case 'response.output_item.done':
        return item ? this.#end(place, item) : [];
      case 'response.completed':
      case 'response.incomplete':
        this.#isOver = true;
        return this.#finish(asRecord(event['response']));
      default:
        return [];
    }
  }

  whole(value: unknown): ReplyEvent[] {
    return this.#finish(asRecord(value));
  }

  #start(response: Record<string, unknown> | null): ReplyEvent[] {
    if (this.#hasStarted) return [];
    this.#hasStarted = true;
    const id = (stringOrNull(response?.['id']) ?? '').replace(/^resp_/, '');
    const model = stringOrNull(response?.['model']) ?? '';
    return [{ type: 'start', id: literalOf(id), model: literalOf(model) }];
  }

  #begin(place: number, item: Record<string, unknown>): ReplyEvent[] {
    if (this.#items.has(place)) return [];
    const isCustom = item['type'] === 'custom_tool_call';
    if (!isCustom && item['type'] !== 'function_call') {
      this.#items.set(place, null);
      return [];
    }
    const index = this.#calls++;
    this.#items.set(place, { index, isCustom, hasInput: false });
    const id = stringOrNull(item['call_id']) ?? stringOrNull(item['id']) ?? `call_${index}`;
    const name = stringOrNull(item['name']) ?? 'unnamed';
    return [{ type: 'tool_call', index, id: literalOf(id), name: literalOf(name) }];
  }

  #delta(place: number, type: 'text' | 'refusal' | 'reasoning', text: string | null): ReplyEvent[] {
    if (text === null || text === '') return [];
    this.#written.add(place);
    return [{ type, text: literalOf(text) }];
  }

  #input(place: number, text: string, isLast = false): ReplyEvent[] {
    const call = this.#items.get(place);
    if (!call) return [];
    const { index, isCustom, hasInput } = call;
    if (text === '' && !(isCustom && isLast)) return [];
    call.hasInput = true;
    const literal = literalOf(text);
    return [
      {
        type: 'tool_arguments',
        index,
        text: isCustom ? customFragment(literal, !hasInput, isLast) : literal,
      },
    ];
  }

  /** Reads of an item that is done what no event had before. */
  #end(place: number, item: Record<string, unknown>): ReplyEvent[] {
    if (this.#done.has(place)) return [];
    this.#done.add(place);
    const begun = this.#begin(place, item);
    const call = this.#items.get(place);
    if (call) {
      const input = stringOrNull(item[call.isCustom ? 'input' : 'arguments']) ?? '';
      return [...begun, ...this.#input(place, call.hasInput ? '' : input, true)];
    }
    const isWritten = this.#written.has(place);
    switch (item['type']) {
      case 'message':
        return isWritten ? [] : recordsOf(item['content']).flatMap(contentEvents);
      case 'reasoning':
        return [...(isWritten ? [] : thoughtsOf(item)), ...this.#signature(item)];
      case 'image_generation_call':
        return imageOf(item);
      default:
        // What tools of the provider's own have done.
        return [];
    }
  }

  #signature(item: Record<string, unknown>): ReplyEvent[] {
    const encrypted = stringOrNull(item['encrypted_content']);
    if (encrypted === null || encrypted === '') return [];
    if (encrypted.startsWith(REDACTED))
      return [{ type: 'redacted_reasoning', data: literalOf(encrypted.slice(REDACTED.length)) }];
    return [{ type: 'signature', signature: `${this.#mark}${literalOf(encrypted)}` }];
  }

  #finish(response: Record<string, unknown> | null): ReplyEvent[] {
    const events = this.#start(response);
    for (const [place, item] of recordsOf(response?.['output']).entries())
      events.push(...this.#end(place, item));
    return [...events, { type: 'finish', reason: this.#reasonOf(response) }];
  }

  #reasonOf(response: Record<string, unknown> | null): FinishReason {
    switch (asRecord(response?.['incomplete_details'])?.['reason']) {
      case 'max_output_tokens':
        return 'length';
      case 'content_filter':
        return 'content_filter';
      default:
        return this.#calls > 0 ? 'tool_calls' : 'stop';
    }
  }
}

function contentEvents(part: Record<string, unknown>): ReplyEvent[] {
  const [text, refusal] = [stringOrNull(part['text']), stringOrNull(part['refusal'])];
  if (refusal) return [{ type: 'refusal', text: literalOf(refusal) }];
  if (!text) return [];
  return [{ type: 'text', text: literalOf(text) }, ...recordsOf(part['annotations']).flatMap(citation)];
}

/** The summary, else the text, where a self-hosted server shows it. */
function thoughtsOf(item: Record<string, unknown>): ReplyEvent[] {
  const textOf = (parts: unknown, between: string): string =>
    recordsOf(parts)
      .map(({ text }) => stringOrNull(text) ?? '')
      .join(between);
  const text = textOf(item['summary'], '\n\n') || textOf(item['content'], '');
  return text === '' ? [] : [{ type: 'reasoning', text: literalOf(text) }];
}

function imageOf(item: Record<string, unknown>): ReplyEvent[] {
  const result = stringOrNull(item['result']);
  if (!result) return [];
  const format = stringOrNull(item['output_format']) ?? 'png';
  return [{ type: 'image', url: literalOf(`data:image/${format};base64,${result}`) }];
}

function citation(annotation: Record<string, unknown> | null): ReplyEvent[] {
  const url = stringOrNull(annotation?.['url']);
  if (annotation?.['type'] !== 'url_citation' || url === null) return [];
  const title = literalOf(stringOrNull(annotation['title']) ?? '');
  return [{ type: 'citation', url: literalOf(url), title }];
}

const recordsOf = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value) ? (value as unknown[]).map(asRecord).filter((each) => each !== null) : [];
