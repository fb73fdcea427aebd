import type { Usage } from '#db/money.ts';
import { anyDelta, type Delta, quickDelta } from '#server/providers/anthropic/delta.ts';
import { EventSplitter } from '#server/wire/event-splitter.ts';
import { NOTHING_TO_REDACT, type Redactor } from '#server/wire/redactor.ts';
import { dataOf } from '#server/wire/sse.ts';
import { relayedError } from '#server/providers/anthropic/errors.ts';
import { insideQuotes, membersOf } from '#server/wire/raw-json.ts';
import { finishReason } from '#server/providers/anthropic/stop-reason.ts';
import { redactedDetail, thinkingDetail } from '#server/providers/anthropic/reasoning-details.ts';
import { MessageRecord } from '#server/providers/anthropic/message-record.ts';
import { usageJson } from '#server/providers/anthropic/usage.ts';
import { OutputCounter } from '#server/wire/output-counter.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import type { PromptUsage, SseReader } from '#server/wire/sse.ts';

/** A tool call that the model is writing. */
type OpenCall = { position: number; isEmpty: boolean };
type Members = ReadonlyMap<string, string>;

/** Tool calls that are open at once: the model writes one after the other. */
const OPEN_CALLS_MAX = 256;

/**
 * A message that is streamed, as a streamed chat completion. All text in here is latin-1 of the bytes,
 * so that text cut out of an event and put into a chunk stays unchanged, characters received in two
 * parts included. An event that violates the protocol ends the reply with an error: a client must not
 * take a reply with a hole in it for whole. Pure.
 */
export class MessageSse implements SseReader {
  readonly #created: number;
  readonly #asksUsage: boolean;
  readonly #redactor: Redactor;
  readonly #written = new OutputCounter();
  readonly #openCalls = new Map<number, OpenCall>();
  readonly #events = new EventSplitter();
  /** What each chunk begins with, once the message has begun. */
  #head: string | null = null;
  #choiceHead = '';
  #contentHead = '';
  #calls = 0;
  readonly #record = new MessageRecord();
  #isFinished = false;
  #isOver = false;
  #failed = false;
  #dataEvents = 0;

  /** @param created in seconds since 1970. @param asksUsage whether the client asked for a usage chunk. */
  constructor(created: number, asksUsage: boolean, redactor = NOTHING_TO_REDACT) {
    this.#redactor = redactor;
    this.#created = created;
    this.#asksUsage = asksUsage;
  }

  push(chunk: Buffer): Buffer | null {
    if (this.#isOver) return null;
    const batch = this.#events.push(chunk);
    if (!batch) return null;
    const { text, ends, whole } = batch;
    let out = '';
    let start = 0;
    for (const [index, end] of ends.entries()) {
      out += whole?.[index] === false ? this.#fail() : this.#translate(text.slice(start, end));
      start = end;
      if (this.#isOver) break;
    }
    return asBytes(this.#redactor.text(out));
  }

  /** An event that only lacks its blank line counts; half of one does not. */
  flush(): Buffer | null {
    const rest = this.#events.rest()?.toString('latin1') ?? '';
    if (this.#isOver) return null;
    const isWhole = isJson(dataOf(rest) ?? '');
    const out = isWhole ? this.#translate(rest) : '';
    // The reply is whole and its cost known, even where the last word is missing: that one is never made up.
    const usage = this.#isFinished && !this.#isOver ? this.#usageChunk() : '';
    this.#isOver = true;
    return asBytes(this.#redactor.text(out) + usage);
  }

  get usage(): Usage | null {
    return this.#record.usage;
  }

  get promptUsage(): PromptUsage | null {
    return this.#record.promptUsage;
  }

  get isImplausible(): boolean {
    return this.#record.isImplausible;
  }

  get facts(): Readonly<ReplyFacts> {
    return this.#record.facts;
  }

  get countedTokens(): number {
    return this.#written.tokens;
  }

  get dataEvents(): number {
    return this.#dataEvents;
  }

  get complete(): boolean {
    return this.#isFinished;
  }

  get failed(): boolean {
    return this.#failed;
  }

  /** Whole chunks alone are made. */
  get insideEvent(): boolean {
    return false;
  }

  #translate(event: string): string {
    const quick = quickDelta(event);
    if (quick) {
      this.#dataEvents++;
      return this.#delta(quick);
    }
    const data = dataOf(event);
    if (data === null || data.trim() === '') return '';
    if (!isJson(data)) return data.trim() === '[DONE]' ? '' : this.#fail();
    const members = membersOf(data);
    // Before the message begins, a ping only shows that the connection is alive; within it, that the model
    // thinks.
    if (members.get('type') !== '"ping"' || this.#head !== null) this.#dataEvents++;
    return this.#event(members);
  }

  #event(members: Members): string {
    switch (members.get('type')) {
      case '"message_start"':
        return this.#begin(membersOf(members.get('message') ?? ''));
      case '"content_block_start"':
        return this.#openBlock(Number(members.get('index')), membersOf(members.get('content_block') ?? ''));
      case '"content_block_delta"': {
        const delta = anyDelta(members);
        return delta ? this.#delta(delta) : this.#signature(members);
      }
      case '"content_block_stop"':
        return this.#closeCall(Number(members.get('index')));
      case '"message_delta"':
        return this.#end(membersOf(members.get('delta') ?? ''), members.get('usage'));
      case '"message_stop"':
        return this.#stop();
      case '"error"':
        return this.#fail(members.get('error'));
      default:
        // Unknown types of events are ignored, unless they contain an error.
        return members.get('error')?.[0] === '{' ? this.#fail(members.get('error')) : '';
    }
  }

  #begin(message: Members): string {
    if (this.#head !== null) return '';
    const id = insideQuotes(message.get('id')) ?? '';
    const model = insideQuotes(message.get('model')) ?? '';
    const created = this.#created;
    this.#head =
      `data: {"id":"${id}","object":"chat.completion.chunk","created":${created},` +
      `"model":"${model}","choices":[`;
    this.#choiceHead = `${this.#head}{"index":0,"delta":`;
    this.#contentHead = `${this.#choiceHead}{"content":"`;
    this.#record.begin(message);
    return this.#chunk('{"role":"assistant","content":""}');
  }

  #openBlock(index: number, block: Members): string {
    if (this.#head === null) return this.#fail();
    switch (block.get('type')) {
      case '"text"':
        return this.#delta({ kind: 'text', index, inside: insideQuotes(block.get('text')) ?? '' });
      case '"thinking"':
        return this.#delta({ kind: 'thinking', index, inside: insideQuotes(block.get('thinking')) ?? '' });
      case '"redacted_thinking"':
        return this.#chunk(`{"reasoning_details":[${redactedDetail(index, block.get('data') ?? '""')}]}`);
      case '"tool_use"':
        return this.#openCall(index, block);
      default:
        return '';
    }
  }

  #openCall(index: number, block: Members): string {
    const id = insideQuotes(block.get('id'));
    const name = insideQuotes(block.get('name'));
    if (id === null || name === null || this.#openCalls.has(index) || this.#openCalls.size >= OPEN_CALLS_MAX)
      return this.#fail();
    const position = this.#calls++;
    this.#openCalls.set(index, { position, isEmpty: true });
    const first = this.#chunk(
      `{"tool_calls":[{"index":${position},"id":"${id}","type":"function",` +
        `"function":{"name":"${name}","arguments":""}}]}`,
    );
    // Some servers with this protocol send the whole input at once.
    const input = block.get('input') ?? '{}';
    const whole = membersOf(input).size === 0 ? '' : JSON.stringify(input).slice(1, -1);
    return whole === '' ? first : first + this.#delta({ kind: 'arguments', index, inside: whole });
  }

  #delta({ kind, index, inside }: Delta): string {
    if (this.#head === null) return this.#fail();
    if (inside === '') return '';
    switch (kind) {
      case 'text':
        this.#written.add(inside.length);
        return `${this.#contentHead}${inside}"},"finish_reason":null}]}\n\n`;
      case 'thinking':
        this.#written.add(inside.length);
        return this.#chunk(
          `{"reasoning_content":"${inside}",` +
            `"reasoning_details":[${thinkingDetail(index, `"${inside}"`, undefined)}]}`,
        );
      case 'arguments': {
        const call = this.#openCalls.get(index);
        // The input of tools that the provider runs is not relayed to the client.
        if (!call) return '';
        call.isEmpty = false;
        this.#written.add(inside.length);
        return this.#chunk(
          `{"tool_calls":[{"index":${call.position},"function":{"arguments":"${inside}"}}]}`,
        );
      }
    }
  }

  #signature(members: Members): string {
    const signature = membersOf(members.get('delta') ?? '').get('signature');
    if (signature?.[0] !== '"' || this.#head === null) return '';
    return this.#chunk(
      `{"reasoning_details":[${thinkingDetail(Number(members.get('index')), undefined, signature)}]}`,
    );
  }

  /** A call of a tool that takes nothing comes without any input, and the convention wants an object. */
  #closeCall(index: number): string {
    const call = this.#openCalls.get(index);
    const rest = call?.isEmpty ? this.#delta({ kind: 'arguments', index, inside: '{}' }) : '';
    this.#openCalls.delete(index);
    return rest;
  }

  #end(delta: Members, usage: string | undefined): string {
    if (this.#head === null) return this.#fail();
    this.#record.end(delta, usage);
    const reason = delta.get('stop_reason');
    if (reason?.[0] !== '"' || this.#isFinished) return '';
    return this.#finish(reason, membersOf(delta.get('stop_details') ?? '').get('explanation'));
  }

  #finish(reason: string | undefined, explanation: string | undefined): string {
    this.#isFinished = true;
    const rest = [...this.#openCalls.keys()].map((index) => this.#closeCall(index)).join('');
    const refusal = explanation?.[0] === '"' ? this.#chunk(`{"refusal":${explanation}}`) : '';
    const finish = finishReason(reason, this.#calls > 0);
    return `${rest}${refusal}${this.#choiceHead}{},"finish_reason":${finish}}]}\n\n`;
  }

  #stop(): string {
    if (this.#head === null) return this.#fail();
    const finish = this.#isFinished ? '' : this.#finish(undefined, undefined);
    this.#isOver = true;
    return `${finish}${this.#usageChunk()}data: [DONE]\n\n`;
  }

  #usageChunk(): string {
    const { reported } = this.#record;
    return this.#asksUsage && reported ? `${this.#head}],"usage":${usageJson(reported)}}\n\n` : '';
  }

  #chunk(delta: string): string {
    return `${this.#choiceHead}${delta},"finish_reason":null}]}\n\n`;
  }

  /** A reply that is whole stays whole, whatever comes behind it. */
  #fail(error?: string): string {
    if (this.#isFinished) return '';
    this.#isOver = true;
    this.#failed = true;
    return `data: {"error":${relayedError(error)}}\n\n`;
  }
}

function asBytes(text: string): Buffer | null {
  return text === '' ? null : Buffer.from(text, 'latin1');
}

function isJson(text: string): boolean {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null;
  } catch {
    return false;
  }
}
