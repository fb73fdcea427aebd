import type { Usage } from '#db/money.ts';
import { jsonOf, type Literal, literalOf, objectIn } from '#server/protocols/literal.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';

const STOPS: Record<FinishReason, string> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

/** A block of a whole reply; the input of a call stays text until its end. */
type Block =
  | { type: 'text' | 'thinking'; text: Literal; signature: Literal }
  | { type: 'tool_use'; id: Literal; name: Literal; text: Literal }
  | { type: 'redacted_thinking'; data: Literal };

/**
 * Writes a reply as Anthropic's Messages: one block after the other, except that parallel calls stay open
 * until the end, since their fragments may alternate. Pure.
 */
export class MessagesReplyWriter implements ReplyWriter {
  readonly #model: Literal;
  readonly #isStreamed: boolean;
  #id: Literal = '';
  #answeredModel: Literal = '';
  #hasStarted = false;
  /** The last block, of text or thinking, with what its deltas begin with; null: none is open. */
  #open: { kind: 'text' | 'thinking'; index: number; head: string } | null = null;
  /** The place of each call's block, and what the deltas of its input begin with. */
  readonly #calls = new Map<number, { index: number; head: string }>();
  #blockCount = 0;
  /** The blocks of a whole reply. A streamed one keeps none. */
  readonly #blocks: Block[] = [];
  #finish: FinishReason | null = null;
  #events = 0;

  /** @param model the client's name for the model, where the reply has none. */
  constructor(model: string, isStreamed: boolean) {
    this.#model = literalOf(model);
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
        return this.#redacted(event.data);
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
    const delta = `"delta":{"stop_reason":"${this.#stopReason}","stop_sequence":null}`;
    return (
      this.#start('', '') +
      this.#close() +
      [...this.#calls.values()].map(({ index: block }) => this.#stop(block)).join('') +
      this.#event('message_delta', `${delta},"usage":${usageJson(usage)}`) +
      this.#event('message_stop')
    );
  }

  body(usage: Usage | null): string {
    return this.#message(this.#blocks.map(contentJson), `"${this.#stopReason}"`, usage);
  }

  get #stopReason(): string {
    if (this.#calls.size > 0 && (this.#finish === null || this.#finish === 'stop')) return STOPS.tool_calls;
    return STOPS[this.#finish ?? 'stop'];
  }

  #message(content: readonly string[], stopReason: string, usage: Usage | null): string {
    return (
      `{"id":"msg_${this.#id}","type":"message","role":"assistant",` +
      `"model":"${this.#answeredModel || this.#model}","content":[${content.join(',')}],` +
      `"stop_reason":${stopReason},"stop_sequence":null,"usage":${usageJson(usage)}}`
    );
  }

  #start(id: Literal, model: Literal): string {
    if (this.#hasStarted) return '';
    this.#hasStarted = true;
    this.#id = id;
    this.#answeredModel = model;
    return this.#isStreamed
      ? this.#event('message_start', `"message":${this.#message([], 'null', null)}`)
      : '';
  }

  #write(kind: 'text' | 'thinking', text: Literal): string {
    let opened = '';
    if (this.#open?.kind !== kind) {
      opened = this.#close() + this.#begin({ type: kind, text: '', signature: '' });
      const index = this.#blockCount - 1;
      const delta = kind === 'text' ? '"text_delta","text":"' : '"thinking_delta","thinking":"';
      this.#open = { kind, index, head: `${deltaHead(index)}${delta}` };
    }
    const { index, head } = this.#open as { index: number; head: string };
    this.#keep(index, text);
    return opened + this.#delta(head, text);
  }

  #sign(signature: Literal): string {
    // A signature without the text that it proves belongs to a thought that isn't shown.
    const opened = this.#open?.kind === 'thinking' ? '' : this.#write('thinking', '');
    const { index } = this.#open as { index: number };
    const block = this.#blocks[index];
    if (block?.type === 'thinking') block.signature = signature;
    const delta = this.#delta(`${deltaHead(index)}"signature_delta","signature":"`, signature);
    return opened + delta + this.#close();
  }

  #redacted(data: Literal): string {
    return (
      this.#close() + this.#begin({ type: 'redacted_thinking', data }) + this.#stop(this.#blockCount - 1)
    );
  }

  #startCall({ index, id, name }: { index: number; id: Literal; name: Literal }): string {
    const closed = this.#close();
    const begun = this.#begin({ type: 'tool_use', id, name, text: '' });
    const block = this.#blockCount - 1;
    const head = `${deltaHead(block)}"input_json_delta","partial_json":"`;
    this.#calls.set(index, { index: block, head });
    return closed + begun;
  }

  #continueCall(call: number, text: Literal): string {
    const { index, head } = this.#calls.get(call) as { index: number; head: string };
    this.#keep(index, text);
    return this.#delta(head, text);
  }

  #begin(block: Block): string {
    const index = this.#blockCount++;
    if (this.#isStreamed)
      return this.#event('content_block_start', `"index":${index},"content_block":${contentJson(block)}`);
    this.#blocks.push(block);
    return '';
  }

  #close(): string {
    if (this.#open === null) return '';
    const { index } = this.#open;
    this.#open = null;
    return this.#stop(index);
  }

  #stop(index: number): string {
    return this.#event('content_block_stop', `"index":${index}`);
  }

  #keep(index: number, text: Literal): void {
    const block = this.#blocks[index];
    if (block && 'text' in block) block.text += text;
  }

  #delta(head: string, text: Literal): string {
    if (!this.#isStreamed) return '';
    this.#events++;
    return `${head}${text}"}}\n\n`;
  }

  #event(type: string, members?: string): string {
    if (!this.#isStreamed) return '';
    this.#events++;
    return `event: ${type}\ndata: {"type":"${type}"${members === undefined ? '' : `,${members}`}}\n\n`;
  }
}

const deltaHead = (index: number): string =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":`;

function contentJson(block: Block): string {
  switch (block.type) {
    case 'text':
      return `{"type":"text","text":"${block.text}"}`;
    case 'thinking':
      return `{"type":"thinking","thinking":"${block.text}","signature":"${block.signature}"}`;
    case 'tool_use':
      return `{"type":"tool_use","id":"${block.id}","name":"${block.name}","input":${objectIn(block.text)}}`;
    case 'redacted_thinking':
      return `{"type":"redacted_thinking","data":"${block.data}"}`;
  }
}

/** Anthropic counts tokens read from a cache and written to one beside the rest of the prompt. */
function usageJson(usage: Usage | null): string {
  const { input, cached, cacheWrite = 0, output, reasoning } = usage ?? NO_USAGE;
  return jsonOf({
    input_tokens: input - cached - cacheWrite,
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cached,
    output_tokens: output,
    ...(reasoning > 0 && { output_tokens_details: { thinking_tokens: reasoning } }),
  });
}

const NO_USAGE: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
