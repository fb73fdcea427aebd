import type { Usage } from '#db/money.ts';
import { customInput } from '#server/protocols/custom-tools.ts';
import { jsonOf, lengthOf, type Literal, literalOf } from '#server/protocols/literal.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';

export type ChatWriterOptions = {
  /** The client's name for the model, where the reply has none. */
  model: string;
  createdS: number;
  isStreamed: boolean;
  /** Whether the client asked for a chunk with the usage. */
  includeUsage: boolean;
  /** The tools that take free text. */
  customTools: ReadonlySet<string>;
};

/**
 * @property text the arguments; of a streamed reply only those of custom tools are kept.
 * @property head what each chunk of its arguments begins with.
 */
type Call = {
  id: Literal;
  name: Literal;
  isCustom: boolean;
  isEmpty: boolean;
  text: Literal;
  head: string;
};
type Detail = { text: Literal; signature: Literal | null };

/** What a reply that is not streamed holds, as literals or JSON. */
type Kept = {
  content: Literal;
  refusal: Literal;
  reasoning: Literal;
  annotations: string[];
  images: string[];
};

/** Writes a reply as a chat completion. Signatures are in `reasoning_details`, as at OpenRouter. Pure. */
export class ChatReplyWriter implements ReplyWriter {
  readonly #options: ChatWriterOptions;
  readonly #isStreamed: boolean;
  #id: Literal = '';
  #model: Literal;
  /** What each chunk begins with, up to its choice's delta. */
  #head = '';
  /** The same for chunks of text, up to the text. */
  #textHead = '';
  /** And for chunks of thoughts. */
  #thoughtHead = '';
  readonly #calls = new Map<number, Call>();
  readonly #kept: Kept = { content: '', refusal: '', reasoning: '', annotations: [], images: [] };
  /** The thoughts of a whole reply; the last can be open. */
  readonly #details: (Detail | string)[] = [];
  #thoughts = 0;
  #characters = 0;
  #reason: FinishReason | null = null;
  #isFinished = false;
  #events = 0;

  constructor(options: ChatWriterOptions) {
    this.#options = options;
    this.#isStreamed = options.isStreamed;
    this.#model = literalOf(options.model);
  }

  get events(): number {
    return this.#events;
  }

  take(event: ReplyEvent): string {
    switch (event.type) {
      case 'start':
        return this.#start(event.id, event.model);
      case 'text':
        return this.#write(event.text);
      case 'refusal':
        if (!this.#isStreamed) this.#kept.refusal += event.text;
        return this.#chunk(`{"refusal":"${event.text}"}`);
      case 'reasoning':
        return this.#think(event.text);
      case 'signature':
        return this.#sign(event.signature);
      case 'redacted_reasoning':
        return this.#redacted(event.data);
      case 'tool_call':
        return this.#startCall(event);
      case 'tool_arguments':
        return this.#continueCall(event.index, event.text);
      case 'citation':
        return this.#cite(event.url, event.title);
      case 'image':
        return this.#image(event.url);
      case 'finish':
        this.#reason = event.reason;
        return this.#finish();
    }
  }

  end(usage: Usage | null): string {
    return `${this.#start('', '')}${this.#finish()}${this.#usageChunk(usage)}data: [DONE]\n\n`;
  }

  body(usage: Usage | null): string {
    const { content, refusal, reasoning, annotations, images } = this.#kept;
    const calls = [...this.#calls.values()].map(wholeCall);
    const details = this.#details.map((detail, index) =>
      typeof detail === 'string' ? detail : detailJson(detail, index),
    );
    const members = [
      '"role":"assistant"',
      `"content":${content === '' && calls.length > 0 ? 'null' : `"${content}"`}`,
      `"refusal":${refusal === '' ? 'null' : `"${refusal}"`}`,
      ...(reasoning === '' ? [] : [`"reasoning_content":"${reasoning}"`]),
      ...listed('reasoning_details', details),
      ...listed('annotations', annotations),
      ...listed('images', images),
      ...listed('tool_calls', calls),
    ];
    const message = `{${members.join(',')}}`;
    const choice = `{"index":0,"message":${message},"logprobs":null,"finish_reason":"${this.#finishReason}"}`;
    const report = usage === null ? '' : `,"usage":${usageJson(usage)}`;
    return `${this.#base('chat.completion')}"choices":[${choice}]${report}}`;
  }

  #usageChunk(usage: Usage | null): string {
    if (!this.#options.includeUsage || usage === null) return '';
    return `data: ${this.#base('chat.completion.chunk')}"choices":[],"usage":${usageJson(usage)}}\n\n`;
  }

  get #finishReason(): FinishReason {
    const reason = this.#reason ?? 'stop';
    return reason === 'stop' && this.#calls.size > 0 ? 'tool_calls' : reason;
  }

  #base(object: string): string {
    const { createdS } = this.#options;
    return `{"id":"${this.#id}","object":"${object}","created":${createdS},"model":"${this.#model}",`;
  }

  #start(id: Literal, model: Literal): string {
    if (this.#head !== '') return '';
    this.#id = id;
    this.#model = model || this.#model;
    this.#head = `data: ${this.#base('chat.completion.chunk')}"choices":[{"index":0,"delta":`;
    this.#textHead = `${this.#head}{"content":"`;
    this.#thoughtHead = `${this.#head}{"reasoning_content":"`;
    return this.#chunk('{"role":"assistant","content":""}');
  }

  #write(text: Literal): string {
    this.#characters += lengthOf(text);
    if (this.#isStreamed) {
      this.#events++;
      return `${this.#textHead}${text}"},"finish_reason":null}]}\n\n`;
    }
    this.#kept.content += text;
    return '';
  }

  #think(text: Literal): string {
    if (this.#isStreamed) {
      this.#events++;
      const detail = `${text}","index":${this.#thoughts}}]},"finish_reason":null}]}\n\n`;
      return `${this.#thoughtHead}${text}","reasoning_details":[{"type":"reasoning.text","text":"${detail}`;
    }
    this.#kept.reasoning += text;
    this.#openDetail().text += text;
    return '';
  }

  #sign(signature: Literal): string {
    if (!this.#isStreamed) this.#openDetail().signature = signature;
    const index = this.#thoughts++;
    return this.#chunk(
      `{"reasoning_details":[{"type":"reasoning.text","signature":"${signature}","index":${index}}]}`,
    );
  }

  #redacted(data: Literal): string {
    const detail = `{"type":"reasoning.encrypted","data":"${data}","index":${this.#thoughts++}}`;
    if (!this.#isStreamed) this.#details.push(detail);
    return this.#chunk(`{"reasoning_details":[${detail}]}`);
  }

  #openDetail(): Detail {
    const last = this.#details.at(-1);
    if (typeof last === 'object' && last.signature === null) return last;
    const detail: Detail = { text: '', signature: null };
    this.#details.push(detail);
    return detail;
  }

  #startCall({ index, id, name }: { index: number; id: Literal; name: Literal }): string {
    const isCustom = this.#options.customTools.has(name);
    const head = `${this.#head}{"tool_calls":[{"index":${index},"function":{"arguments":"`;
    this.#calls.set(index, { id, name, isCustom, isEmpty: true, text: '', head });
    const called = isCustom
      ? `"type":"custom","custom":{"name":"${name}","input":""}`
      : `"type":"function","function":{"name":"${name}","arguments":""}`;
    return this.#chunk(`{"tool_calls":[{"index":${index},"id":"${id}",${called}}]}`);
  }

  #continueCall(index: number, text: Literal): string {
    const call = this.#calls.get(index) as Call;
    call.isEmpty = false;
    if (call.isCustom || !this.#isStreamed) {
      call.text += text;
      return '';
    }
    this.#events++;
    return `${call.head}${text}"}}]},"finish_reason":null}]}\n\n`;
  }

  #cite(url: Literal, title: Literal): string {
    const at = this.#characters;
    const source = `{"url":"${url}","title":"${title}","start_index":${at},"end_index":${at}}`;
    const annotation = `{"type":"url_citation","url_citation":${source}}`;
    if (!this.#isStreamed) this.#kept.annotations.push(annotation);
    return this.#chunk(`{"annotations":[${annotation}]}`);
  }

  #image(url: Literal): string {
    const image = `{"type":"image_url","image_url":{"url":"${url}"}}`;
    if (!this.#isStreamed) this.#kept.images.push(image);
    return this.#chunk(`{"images":[${image}]}`);
  }

  #finish(): string {
    if (this.#isFinished) return '';
    this.#isFinished = true;
    const inputs = [...this.#calls].map(([index, { isCustom, isEmpty, text }]) => {
      // The input of a custom tool is in an argument, which is read when it is complete.
      if (isCustom)
        return this.#chunk(`{"tool_calls":[{"index":${index},"custom":{"input":"${customInput(text)}"}}]}`);
      // A call of a tool that takes nothing may come without arguments, and clients want an object.
      return isEmpty ? this.#chunk(`{"tool_calls":[{"index":${index},"function":{"arguments":"{}"}}]}`) : '';
    });
    return inputs.join('') + this.#chunk('{}', `"${this.#finishReason}"`);
  }

  #chunk(delta: string, finishReason = 'null'): string {
    if (!this.#isStreamed) return '';
    this.#events++;
    return `${this.#head}${delta},"finish_reason":${finishReason}}]}\n\n`;
  }
}

const listed = (name: string, elements: readonly string[]): string[] =>
  elements.length === 0 ? [] : [`"${name}":[${elements.join(',')}]`];

const detailJson = ({ text, signature }: Detail, index: number): string =>
  `{"type":"reasoning.text","text":"${text}",` +
  `${signature === null ? '' : `"signature":"${signature}",`}"index":${index}}`;

function wholeCall({ id, name, isCustom, text }: Call): string {
  const called = isCustom
    ? `"type":"custom","custom":{"name":"${name}","input":"${customInput(text)}"}`
    : `"type":"function","function":{"name":"${name}","arguments":"${text === '' ? '{}' : text}"}`;
  return `{"id":"${id}",${called}}`;
}

const usageJson = ({ input, cached, cacheWrite = 0, output, reasoning }: Usage): string =>
  jsonOf({
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: {
      cached_tokens: cached,
      ...(cacheWrite > 0 && { cache_write_tokens: cacheWrite }),
    },
    completion_tokens_details: { reasoning_tokens: reasoning },
  });
