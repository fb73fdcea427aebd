import type { Usage } from '#db/money.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';
import { asRecord } from '#server/wire/counts.ts';

const STOPS: Record<FinishReason, string> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

const DELTAS = {
  text: (text: string) => ({ type: 'text_delta', text }),
  thinking: (thinking: string) => ({ type: 'thinking_delta', thinking }),
} as const;
const EMPTY = {
  text: { type: 'text', text: '' },
  thinking: { type: 'thinking', thinking: '', signature: '' },
} as const;

/** A block of a whole reply; the input of a call stays text until its end. */
type Block = { shape: Record<string, unknown>; text: string; signature: string };

/**
 * Writes a reply as Anthropic's Messages: one block after the other, except that parallel calls stay open
 * until the end, since their fragments may alternate. Pure.
 */
export class MessagesReplyWriter implements ReplyWriter {
  readonly #model: string;
  readonly #isStreamed: boolean;
  #id = '';
  #answeredModel = '';
  #hasStarted = false;
  /** The last block, of text or thinking; null: none is open. */
  #open: { kind: 'text' | 'thinking'; index: number } | null = null;
  /** The place of each call's block. */
  readonly #calls = new Map<number, number>();
  #blockCount = 0;
  /** The blocks of a whole reply. A streamed one keeps none. */
  readonly #blocks: Block[] = [];
  #finish: FinishReason | null = null;
  #events = 0;

  /** @param model the client's name for the model, where the reply has none. */
  constructor(model: string, isStreamed: boolean) {
    this.#model = model;
    this.#isStreamed = isStreamed;
  }

  get events(): number {
    return this.#events;
  }

  take(event: ReplyEvent): string {
    switch (event.type) {
      case 'start':
        return this.#start(event.id, event.model);
      case 'text':
      case 'refusal':
        return this.#write('text', event.text);
      case 'reasoning':
        return this.#write('thinking', event.text);
      case 'signature':
        return this.#sign(event.signature);
      case 'redacted_reasoning':
        return `${this.#close()}${this.#whole({ type: 'redacted_thinking', data: event.data })}`;
      case 'tool_call':
        return this.#startCall(event);
      case 'tool_arguments':
        return this.#continueCall(event.index, event.text);
      case 'image':
        return this.#write('text', '[The model returned an image, which this protocol has no block for.]');
      case 'citation':
        return this.#write('text', ` [${event.title || event.url}](${event.url})`);
      case 'finish':
        this.#finish = event.reason;
        return '';
    }
  }

  end(usage: Usage | null): string {
    const delta = { stop_reason: this.#stopReason, stop_sequence: null };
    return (
      this.#start('', '') +
      this.#close() +
      [...this.#calls.values()].map((index) => this.#stop(index)).join('') +
      this.#event('message_delta', { delta, usage: usageOf(usage) }) +
      this.#event('message_stop', {})
    );
  }

  body(usage: Usage | null): string {
    return JSON.stringify({
      ...this.#head,
      content: this.#blocks.map(contentOf),
      stop_reason: this.#stopReason,
      usage: usageOf(usage),
    });
  }

  get #stopReason(): string {
    if (this.#calls.size > 0 && (this.#finish === null || this.#finish === 'stop')) return STOPS.tool_calls;
    return STOPS[this.#finish ?? 'stop'];
  }

  get #head(): object {
    return {
      id: `msg_${this.#id}`,
      type: 'message',
      role: 'assistant',
      model: this.#answeredModel || this.#model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: usageOf(null),
    };
  }

  #start(id: string, model: string): string {
    if (this.#hasStarted) return '';
    this.#hasStarted = true;
    this.#id = id;
    this.#answeredModel = model;
    return this.#event('message_start', { message: this.#head });
  }

  #write(kind: 'text' | 'thinking', text: string): string {
    let opened = '';
    if (this.#open?.kind !== kind) {
      opened = this.#close() + this.#begin(EMPTY[kind]);
      this.#open = { kind, index: this.#blockCount - 1 };
    }
    const { index } = this.#open as { index: number };
    this.#keep(index, text);
    return opened + this.#event('content_block_delta', { index, delta: DELTAS[kind](text) });
  }

  #sign(signature: string): string {
    // A signature without the text that it proves belongs to a thought that isn't shown.
    const opened = this.#open?.kind === 'thinking' ? '' : this.#write('thinking', '');
    const { index } = this.#open as { index: number };
    const block = this.#blocks[index];
    if (block) block.signature = signature;
    const delta = { type: 'signature_delta', signature };
    return opened + this.#event('content_block_delta', { index, delta }) + this.#close();
  }

  #startCall({ index, id, name }: { index: number; id: string; name: string }): string {
    const closed = this.#close();
    const begun = this.#begin({ type: 'tool_use', id, name, input: {} });
    this.#calls.set(index, this.#blockCount - 1);
    return closed + begun;
  }

  #continueCall(call: number, partial_json: string): string {
    const index = this.#calls.get(call) as number;
    this.#keep(index, partial_json);
    return this.#event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json } });
  }

  #begin(content_block: Record<string, unknown>): string {
    if (!this.#isStreamed) this.#blocks.push({ shape: content_block, text: '', signature: '' });
    return this.#event('content_block_start', { index: this.#blockCount++, content_block });
  }

  #whole(block: Record<string, unknown>): string {
    return this.#begin(block) + this.#stop(this.#blockCount - 1);
  }

  #close(): string {
    if (this.#open === null) return '';
    const { index } = this.#open;
    this.#open = null;
    return this.#stop(index);
  }

  #stop(index: number): string {
    return this.#event('content_block_stop', { index });
  }

  #keep(index: number, text: string): void {
    const block = this.#blocks[index];
    if (block) block.text += text;
  }

  #event(type: string, members: object): string {
    if (!this.#isStreamed) return '';
    this.#events++;
    return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
  }
}

function contentOf({ shape, text, signature }: Block): object {
  switch (shape['type']) {
    case 'text':
      return { ...shape, text };
    case 'thinking':
      return { ...shape, thinking: text, signature };
    case 'tool_use':
      return { ...shape, input: inputOf(text) };
    default:
      return shape;
  }
}

/** The arguments of a call, which a model may have written as something else than an object. */
function inputOf(text: string): object {
  try {
    return asRecord(JSON.parse(text === '' ? '{}' : text)) ?? { arguments: text };
  } catch {
    return { arguments: text };
  }
}

/** Anthropic counts tokens read from a cache and written to one beside the rest of the prompt. */
function usageOf(usage: Usage | null): object {
  const { input, cached, cacheWrite = 0, output } = usage ?? NO_USAGE;
  return {
    input_tokens: input - cached - cacheWrite,
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cached,
    output_tokens: output,
  };
}

const NO_USAGE: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
