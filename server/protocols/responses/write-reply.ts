import type { Usage } from '#db/money.ts';
import { CUSTOM_INPUT } from '#server/protocols/chat/write-request.ts';
import { REDACTED } from '#server/protocols/responses/read-request.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';
import { asRecord } from '#server/wire/counts.ts';

type Item = { id: string; type: string; status: string } & Record<string, unknown>;
/** The item that is being written, with its text so far. */
type Open = { item: Item; index: number; text: string };
type OpenText = Open & { kind: 'text' | 'refusal'; citations: object[] };
type OpenCall = Open & { isCustom: boolean };

const PART = 'response.content_part';
const SUMMARY = 'response.reasoning_summary';

export type ResponsesWriterOptions = {
  /** The client's request, whose settings a response repeats. */
  request: Record<string, unknown>;
  /** The tools that take free text. */
  customTools: ReadonlySet<string>;
  /** The client's name for the model, where the reply has none. */
  model: string;
  createdS: number;
  isStreamed: boolean;
};

/**
 * Writes a reply as a response of OpenAI's Responses API. The last event repeats the whole reply, so that it
 * is kept. Parallel calls stay open until the end, since their fragments may alternate. Pure.
 */
export class ResponsesReplyWriter implements ReplyWriter {
  readonly #options: ResponsesWriterOptions;
  readonly #output: Item[] = [];
  #id = '';
  #model = '';
  #hasStarted = false;
  #text: OpenText | null = null;
  #reasoning: Open | null = null;
  readonly #calls = new Map<number, OpenCall>();
  #finish: FinishReason = 'stop';
  #events = 0;

  constructor(options: ResponsesWriterOptions) {
    this.#options = options;
    this.#model = options.model;
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
        return this.#write(event.type, event.text);
      case 'reasoning':
        return this.#reason(event.text);
      case 'signature':
        return this.#sign(event.signature);
      case 'redacted_reasoning':
        return this.#close() + this.#reason('') + this.#sign(`${REDACTED}${event.data}`);
      case 'tool_call':
        return this.#startCall(event.index, event.id, event.name);
      case 'tool_arguments':
        return this.#continueCall(event.index, event.text);
      case 'citation':
        return this.#cite(event.url, event.title);
      case 'image':
        return this.#close() + this.#image(event.url);
      case 'finish':
        this.#finish = event.reason;
        return '';
    }
  }

  end(usage: Usage | null): string {
    const rest = this.#start('', '') + this.#closeAll();
    const response = this.#response(this.#status, usage);
    return rest + this.#event(`response.${this.#status}`, { response });
  }

  body(usage: Usage | null): string {
    this.#closeAll();
    return JSON.stringify(this.#response(this.#status, usage));
  }

  get #status(): 'completed' | 'incomplete' {
    return this.#incompleteReason === null ? 'completed' : 'incomplete';
  }

  get #incompleteReason(): string | null {
    if (this.#finish === 'length') return 'max_output_tokens';
    return this.#finish === 'content_filter' ? 'content_filter' : null;
  }

  #start(id: string, model: string): string {
    if (this.#hasStarted) return '';
    this.#hasStarted = true;
    this.#id = id;
    this.#model = model || this.#model;
    if (!this.#options.isStreamed) return '';
    const response = this.#response('in_progress', null);
    return this.#event('response.created', { response }) + this.#event('response.in_progress', { response });
  }

  #write(kind: 'text' | 'refusal', text: string): string {
    let opened = '';
    if (this.#text?.kind !== kind) {
      opened = this.#close();
      const { index, item, event } = this.#add('message', 'msg', { role: 'assistant', content: [] });
      this.#text = { kind, index, item, text: '', citations: [] };
      opened += event + this.#event(`${PART}.added`, { ...placeOf(this.#text), part: partOf(this.#text) });
    }
    const open = this.#text;
    open.text += text;
    const type = kind === 'text' ? 'response.output_text.delta' : 'response.refusal.delta';
    return (
      opened + this.#event(type, { ...placeOf(open), delta: text, ...(kind === 'text' && { logprobs: [] }) })
    );
  }

  #cite(url: string, title: string): string {
    const opened = this.#text?.kind === 'text' ? '' : this.#write('text', '');
    const open = this.#text as OpenText;
    const at = open.text.length;
    const annotation = { type: 'url_citation', url, title, start_index: at, end_index: at };
    open.citations.push(annotation);
    const annotation_index = open.citations.length - 1;
    const event = 'response.output_text.annotation.added';
    return opened + this.#event(event, { ...placeOf(open), annotation_index, annotation });
  }

  #reason(text: string): string {
    let opened = '';
    if (!this.#reasoning) {
      opened = this.#close();
      const { index, item, event } = this.#add('reasoning', 'rs', { summary: [] });
      this.#reasoning = { index, item, text: '' };
      opened += event;
    }
    const open = this.#reasoning;
    if (text === '') return opened;
    const part = { type: 'summary_text', text: '' };
    if (open.text === '') opened += this.#event(`${SUMMARY}_part.added`, { ...summaryOf(open), part });
    open.text += text;
    return opened + this.#event(`${SUMMARY}_text.delta`, { ...summaryOf(open), delta: text });
  }

  #sign(signature: string): string {
    const opened = this.#reason('');
    if (this.#reasoning) this.#reasoning.item['encrypted_content'] = signature;
    return opened + this.#close();
  }

  #startCall(call: number, call_id: string, name: string): string {
    const closed = this.#close();
    const isCustom = this.#options.customTools.has(name);
    const { index, item, event } = isCustom
      ? this.#add('custom_tool_call', 'ctc', { call_id, name, input: '' })
      : this.#add('function_call', 'fc', { call_id, name, arguments: '' });
    this.#calls.set(call, { index, item, text: '', isCustom });
    return closed + event;
  }

  /** The input of a custom tool is in an argument, which is read when it is complete. */
  #continueCall(call: number, text: string): string {
    const open = this.#calls.get(call) as OpenCall;
    open.text += text;
    if (open.isCustom) return '';
    return this.#event('response.function_call_arguments.delta', { ...itemOf(open), delta: text });
  }

  #image(url: string): string {
    const { index, item, event } = this.#add('image_generation_call', 'ig', {});
    item['result'] = url.slice(url.indexOf(',') + 1);
    return event + this.#done({ index, item });
  }

  /** Begins an item. */
  #add(type: string, prefix: string, members: object): { index: number; item: Item; event: string } {
    const index = this.#output.length;
    const item: Item = { id: `${prefix}_${this.#id}_${index}`, type, status: 'in_progress', ...members };
    this.#output.push(item);
    return { index, item, event: this.#event('response.output_item.added', { output_index: index, item }) };
  }

  #done({ index, item }: Pick<Open, 'index' | 'item'>): string {
    item.status = 'completed';
    return this.#event('response.output_item.done', { output_index: index, item });
  }

  #closeAll(): string {
    const rest = this.#close() + [...this.#calls.values()].map((call) => this.#closeCall(call)).join('');
    this.#calls.clear();
    return rest;
  }

  /** Ends the text or reasoning that is open. */
  #close(): string {
    const [text, reasoning] = [this.#text, this.#reasoning];
    this.#text = null;
    this.#reasoning = null;
    if (text) return this.#closeText(text);
    return reasoning ? this.#closeReasoning(reasoning) : '';
  }

  #closeText(open: OpenText): string {
    const part = partOf(open);
    open.item['content'] = [part];
    const whole =
      open.kind === 'text'
        ? this.#event('response.output_text.done', { ...placeOf(open), text: open.text, logprobs: [] })
        : this.#event('response.refusal.done', { ...placeOf(open), refusal: open.text });
    return whole + this.#event(`${PART}.done`, { ...placeOf(open), part }) + this.#done(open);
  }

  #closeReasoning(open: Open): string {
    if (open.text === '') return this.#done(open);
    const part = { type: 'summary_text', text: open.text };
    open.item['summary'] = [part];
    const place = summaryOf(open);
    return (
      this.#event(`${SUMMARY}_text.done`, { ...place, text: open.text }) +
      this.#event(`${SUMMARY}_part.done`, { ...place, part }) +
      this.#done(open)
    );
  }

  #closeCall(open: OpenCall): string {
    const place = itemOf(open);
    if (!open.isCustom) {
      open.item['arguments'] = open.text || '{}';
      const { name, arguments: text } = open.item;
      return (
        this.#event('response.function_call_arguments.done', { ...place, name, arguments: text }) +
        this.#done(open)
      );
    }
    const input = customInput(open.text);
    open.item['input'] = input;
    return (
      this.#event('response.custom_tool_call_input.delta', { ...place, delta: input }) +
      this.#event('response.custom_tool_call_input.done', { ...place, input }) +
      this.#done(open)
    );
  }

  #response(status: 'in_progress' | 'completed' | 'incomplete', usage: Usage | null): object {
    const { request, createdS } = this.#options;
    const reason = status === 'incomplete' ? this.#incompleteReason : null;
    return {
      id: `resp_${this.#id}`,
      object: 'response',
      created_at: createdS,
      status,
      background: false,
      error: null,
      incomplete_details: reason === null ? null : { reason },
      instructions: request['instructions'] ?? null,
      max_output_tokens: request['max_output_tokens'] ?? null,
      metadata: request['metadata'] ?? {},
      model: this.#model,
      output: status === 'in_progress' ? [] : this.#output,
      parallel_tool_calls: request['parallel_tool_calls'] ?? true,
      previous_response_id: null,
      reasoning: request['reasoning'] ?? { effort: null, summary: null },
      store: false,
      temperature: request['temperature'] ?? null,
      text: request['text'] ?? { format: { type: 'text' } },
      tool_choice: request['tool_choice'] ?? 'auto',
      tools: request['tools'] ?? [],
      top_p: request['top_p'] ?? null,
      truncation: 'disabled',
      usage: usage && usageOf(usage),
    };
  }

  #event(type: string, members: object): string {
    if (!this.#options.isStreamed) return '';
    const data = JSON.stringify({ type, sequence_number: this.#events++, ...members });
    return `event: ${type}\ndata: ${data}\n\n`;
  }
}

const itemOf = ({ item, index }: Open): object => ({ item_id: item.id, output_index: index });
const placeOf = (open: Open): object => ({ ...itemOf(open), content_index: 0 });
const summaryOf = (open: Open): object => ({ ...itemOf(open), summary_index: 0 });

const partOf = ({ kind, text, citations }: OpenText): object =>
  kind === 'text'
    ? { type: 'output_text', text, annotations: citations, logprobs: [] }
    : { type: 'refusal', refusal: text };

/** The free text in the arguments of the function that stands for a custom tool; else the arguments. */
function customInput(text: string): string {
  try {
    const input = asRecord(JSON.parse(text))?.[CUSTOM_INPUT];
    return typeof input === 'string' ? input : text;
  } catch {
    return text;
  }
}

const usageOf = ({ input, cached, output, reasoning }: Usage): object => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output,
});
