import { type Literal, literalOf } from '#server/protocols/literal.ts';
import type { FinishReason, ReplyEvent, ReplyReader } from '#server/protocols/reply-events.ts';
import { stringOrNull } from '#server/protocols/fields.ts';
import { asRecord } from '#server/wire/counts.ts';

/** An upstream's words for the end of a reply; any other ends it as `stop`. */
const FINISHES: ReadonlyMap<unknown, FinishReason> = new Map([
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
]);

/**
 * A call as far as it was received. Some upstreams send the name behind the first arguments, which wait for
 * it.
 */
type Call = { index: number; key: unknown; id: string | null; isStarted: boolean; waiting: Literal };

/** Reads the chunks of a chat completion, or a whole one. Of several choices the first is read. Pure. */
export class ChatReplyReader implements ReplyReader {
  #id: string | null = null;
  readonly #calls: Call[] = [];
  #isFinished = false;
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  whole(value: unknown): ReplyEvent[] {
    return this.read(value, '');
  }

  /** @param value a chunk, or a whole completion. */
  read(value: unknown, json: string): ReplyEvent[] {
    if (json === '[DONE]') this.#isOver = true;
    const chunk = asRecord(value);
    if (!chunk) return [];
    const choices = Array.isArray(chunk['choices']) ? (chunk['choices'] as unknown[]).map(asRecord) : [];
    const choice = choices.find((each) => (each?.['index'] ?? 0) === 0);
    const events: ReplyEvent[] = [];
    if (this.#id === null && choice) {
      this.#id = stringOrNull(chunk['id']) ?? '';
      const model = literalOf(stringOrNull(chunk['model']) ?? '');
      events.push({ type: 'start', id: literalOf(this.#id), model });
    }
    const message = asRecord(choice?.['delta']) ?? asRecord(choice?.['message']);
    if (message) this.#readMessage(message, events);
    const reason = stringOrNull(choice?.['finish_reason']);
    if (reason !== null && reason !== 'error' && !this.#isFinished) {
      this.#isFinished = true;
      this.#startUnnamed(events);
      events.push({ type: 'finish', reason: FINISHES.get(reason) ?? 'stop' });
    }
    return events;
  }

  #readMessage(message: Record<string, unknown>, events: ReplyEvent[]): void {
    const { content, refusal, reasoning_details: details, tool_calls: calls, annotations, images } = message;
    const reasoning = stringOrNull(message['reasoning_content']) ?? stringOrNull(message['reasoning']);
    // Most upstreams have the same text in both; then the details say where each thought ends.
    const detailed = recordsOf(details);
    const isTwice = detailed.map(({ text }) => stringOrNull(text) ?? '').join('') === reasoning;
    if (reasoning && !isTwice) events.push({ type: 'reasoning', text: literalOf(reasoning) });
    for (const detail of detailed) readDetail(detail, !reasoning || isTwice, events);
    if (typeof content === 'string') addText(content, events);
    // Mistral's reasoning models reply in parts.
    else for (const part of recordsOf(content)) readPart(part, events);
    if (typeof refusal === 'string' && refusal !== '')
      events.push({ type: 'refusal', text: literalOf(refusal) });
    for (const [position, call] of recordsOf(calls).entries()) this.#readCall(call, position, events);
    for (const each of recordsOf(annotations)) readCitation(each, events);
    for (const each of recordsOf(images)) {
      const url = stringOrNull(asRecord(each['image_url'])?.['url']);
      if (url !== null) events.push({ type: 'image', url: literalOf(url) });
    }
  }

  #readCall(fragment: Record<string, unknown>, position: number, events: ReplyEvent[]): void {
    const named = asRecord(fragment['function']) ?? {};
    const id = stringOrNull(fragment['id']) || null;
    const call = this.#callOf(fragment['index'] ?? position, id);
    const name = stringOrNull(named['name']) || null;
    const text = argumentsIn(named['arguments']);
    call.id ??= id;
    if (!call.isStarted) {
      call.waiting += text;
      if (name !== null) this.#start(call, name, events);
    } else if (text !== '') events.push({ type: 'tool_arguments', index: call.index, text });
  }

  /** Some upstreams number every call alike; then another id begins another call. */
  #callOf(key: unknown, id: string | null): Call {
    const known = this.#calls.findLast((call) => call.key === key);
    if (known && (id === null || known.id === null || known.id === id)) return known;
    const byId = id === null ? undefined : this.#calls.find((call) => call.id === id);
    if (byId) return byId;
    const call: Call = { index: this.#calls.length, key, id, isStarted: false, waiting: '' };
    this.#calls.push(call);
    return call;
  }

  #start(call: Call, name: string, events: ReplyEvent[]): void {
    call.isStarted = true;
    const { index, waiting } = call;
    call.id ??= `call_${this.#id ?? ''}_${index}`;
    events.push({ type: 'tool_call', index, id: literalOf(call.id), name: literalOf(name) });
    if (waiting !== '') events.push({ type: 'tool_arguments', index, text: waiting });
    call.waiting = '';
  }

  /** A call that never got a name is still one that the model made. */
  #startUnnamed(events: ReplyEvent[]): void {
    for (const call of this.#calls) if (!call.isStarted) this.#start(call, 'unnamed', events);
  }
}

/** Some upstreams send the arguments as an object. */
function argumentsIn(value: unknown): Literal {
  const record = asRecord(value);
  return literalOf(record ? JSON.stringify(record) : (stringOrNull(value) ?? ''));
}

function addText(text: string, events: ReplyEvent[]): void {
  if (text !== '') events.push({ type: 'text', text: literalOf(text) });
}

function readPart(part: Record<string, unknown>, events: ReplyEvent[]): void {
  if (part['type'] !== 'thinking') return addText(stringOrNull(part['text']) ?? '', events);
  for (const thought of recordsOf(part['thinking'])) {
    const text = stringOrNull(thought['text']);
    if (text) events.push({ type: 'reasoning', text: literalOf(text) });
  }
}

/** @param hasText whether the text is to be read, which may have come as `reasoning_content`. */
function readDetail(detail: Record<string, unknown>, hasText: boolean, events: ReplyEvent[]): void {
  const [text, signature, data] = [detail['text'], detail['signature'], detail['data']].map(stringOrNull);
  if (text && hasText) events.push({ type: 'reasoning', text: literalOf(text) });
  if (signature) events.push({ type: 'signature', signature: literalOf(signature) });
  if (data) events.push({ type: 'redacted_reasoning', data: literalOf(data) });
}

function readCitation(annotation: Record<string, unknown>, events: ReplyEvent[]): void {
  const source = asRecord(annotation['url_citation']);
  const url = stringOrNull(source?.['url']);
  const title = literalOf(stringOrNull(source?.['title']) ?? '');
  if (url !== null) events.push({ type: 'citation', url: literalOf(url), title });
}

const recordsOf = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value) ? (value as unknown[]).map(asRecord).filter((each) => each !== null) : [];
