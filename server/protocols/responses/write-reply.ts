import type { Usage } from '#db/money.ts';
import { customInput } from '#server/protocols/custom-tools.ts';
import { jsonOf, lengthOf, type Literal, literalOf } from '#server/protocols/literal.ts';
import { REDACTED } from '#server/protocols/responses/read-request.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';
import { TextCollector } from '#server/wire/text-collector.ts';

/** An item that is being written, with its text so far. */
type Open = { id: Literal; index: number; said: TextCollector };
/** @property delta what each of its deltas has behind its number, up to the text. */
type OpenText = Open & { kind: 'text' | 'refusal'; delta: string; citations: string[] };
type OpenReasoning = Open & { delta: string; signature: Literal | null };
type OpenCall = Open & { callId: Literal; name: Literal; isCustom: boolean; delta: string };
type Status = 'in_progress' | 'completed' | 'incomplete';

const PART = 'response.content_part';
const SUMMARY = 'response.reasoning_summary';
/** What an event begins with, up to its number. */
const headOf = (type: string): string => `event: ${type}\ndata: {"type":"${type}","sequence_number":`;
const TEXT_DELTA = headOf('response.output_text.delta');
const REFUSAL_DELTA = headOf('response.refusal.delta');
const ARGUMENTS_DELTA = headOf('response.function_call_arguments.delta');
const SUMMARY_DELTA = headOf(`${SUMMARY}_text.delta`);

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
  /** The items that are done, as JSON, each in its place. */
  readonly #output: string[] = [];
  #items = 0;
  #id: Literal = '';
  #model: Literal = '';
  /** The settings of the request, which each response object repeats. */
  #settings: { before: string; behind: string } | null = null;
  #hasStarted = false;
  #text: OpenText | null = null;
  #reasoning: OpenReasoning | null = null;
  readonly #calls = new Map<number, OpenCall>();
  #finish: FinishReason = 'stop';
  #events = 0;

  constructor(options: ResponsesWriterOptions) {
    this.#options = options;
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
    return rest + this.#event(`response.${this.#status}`, `"response":${response}`);
  }

  body(usage: Usage | null): string {
    this.#closeAll();
    return this.#response(this.#status, usage);
  }

  get #status(): 'completed' | 'incomplete' {
    return this.#incompleteReason === null ? 'completed' : 'incomplete';
  }

  get #incompleteReason(): string | null {
    if (this.#finish === 'length') return 'max_output_tokens';
    return this.#finish === 'content_filter' ? 'content_filter' : null;
  }

  #start(id: Literal, model: Literal): string {
    if (this.#hasStarted) return '';
    this.#hasStarted = true;
    this.#id = id;
    this.#model = model || this.#model;
    if (!this.#options.isStreamed) return '';
    const response = `"response":${this.#response('in_progress', null)}`;
    return this.#event('response.created', response) + this.#event('response.in_progress', response);
  }

  #write(kind: 'text' | 'refusal', text: Literal): string {
    let opened = '';
    if (this.#text?.kind !== kind) {
      opened = this.#close();
      const open = { ...this.#open('msg'), kind, delta: '', citations: [] };
      open.delta = `,${placeOf(open)},"delta":"`;
      this.#text = open;
      opened += this.#added(open, messageItem(open, 'in_progress'));
      opened += this.#event(`${PART}.added`, `${placeOf(open)},"part":${partOf(open)}`);
    }
    const open = this.#text;
    open.said.add(text);
    return kind === 'text'
      ? opened + this.#delta(TEXT_DELTA, open.delta, text, '","logprobs":[]}\n\n')
      : opened + this.#delta(REFUSAL_DELTA, open.delta, text);
  }

  #cite(url: Literal, title: Literal): string {
    const opened = this.#text?.kind === 'text' ? '' : this.#write('text', '');
    const open = this.#text as OpenText;
    const at = lengthOf(open.said.text);
    const range = `"start_index":${at},"end_index":${at}`;
    const annotation = `{"type":"url_citation","url":"${url}","title":"${title}",${range}}`;
    const place = `${placeOf(open)},"annotation_index":${open.citations.length}`;
    open.citations.push(annotation);
    return (
      opened + this.#event('response.output_text.annotation.added', `${place},"annotation":${annotation}`)
    );
  }

  #reason(text: Literal): string {
    let opened = '';
    if (!this.#reasoning) {
      opened = this.#close();
      const open = { ...this.#open('rs'), delta: '', signature: null };
      open.delta = `,${summaryOf(open)},"delta":"`;
      this.#reasoning = open;
      opened += this.#added(open, reasoningItem(open, 'in_progress'));
    }
    const open = this.#reasoning;
    if (text === '') return opened;
    if (open.said.isEmpty)
      opened += this.#event(
        `${SUMMARY}_part.added`,
        `${summaryOf(open)},"part":{"type":"summary_text","text":""}`,
      );
    open.said.add(text);
    return opened + this.#delta(SUMMARY_DELTA, open.delta, text);
  }

  #sign(signature: Literal): string {
    const opened = this.#reason('');
    if (this.#reasoning) this.#reasoning.signature = signature;
    return opened + this.#close();
  }

  #startCall(call: number, callId: Literal, name: Literal): string {
    const closed = this.#close();
    const isCustom = this.#options.customTools.has(name);
    const open = { ...this.#open(isCustom ? 'ctc' : 'fc'), callId, name, isCustom, delta: '' };
    open.delta = `,${itemOf(open)},"delta":"`;
    this.#calls.set(call, open);
    return closed + this.#added(open, callItem(open, '', 'in_progress'));
  }

  /** The input of a custom tool is in an argument, which is read when it is complete. */
  #continueCall(call: number, text: Literal): string {
    const open = this.#calls.get(call) as OpenCall;
    open.said.add(text);
    return open.isCustom ? '' : this.#delta(ARGUMENTS_DELTA, open.delta, text);
  }

  #image(url: Literal): string {
    const open = this.#open('ig');
    const item = (status: Status, result: string): string =>
      `{"id":"${open.id}","type":"image_generation_call","status":"${status}"${result}}`;
    const added = this.#added(open, item('in_progress', ''));
    return added + this.#done(open, item('completed', `,"result":"${url.slice(url.indexOf(',') + 1)}"`));
  }

  /** Begins an item. */
  #open(prefix: string): Open {
    const index = this.#items++;
    return { id: `${prefix}_${this.#id}_${index}`, index, said: new TextCollector() };
  }

  #added({ index }: Open, item: string): string {
    return this.#event('response.output_item.added', `"output_index":${index},"item":${item}`);
  }

  #done({ index }: Open, item: string): string {
    this.#output[index] = item;
    return this.#event('response.output_item.done', `"output_index":${index},"item":${item}`);
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
    const place = placeOf(open);
    const whole =
      open.kind === 'text'
        ? this.#event('response.output_text.done', `${place},"text":"${open.said.text}","logprobs":[]`)
        : this.#event('response.refusal.done', `${place},"refusal":"${open.said.text}"`);
    return (
      whole +
      this.#event(`${PART}.done`, `${place},"part":${partOf(open)}`) +
      this.#done(open, messageItem(open, 'completed'))
    );
  }

  #closeReasoning(open: OpenReasoning): string {
    const item = reasoningItem(open, 'completed');
    if (open.said.isEmpty) return this.#done(open, item);
    const place = summaryOf(open);
    return (
      this.#event(`${SUMMARY}_text.done`, `${place},"text":"${open.said.text}"`) +
      this.#event(`${SUMMARY}_part.done`, `${place},"part":${summaryPart(open)}`) +
      this.#done(open, item)
    );
  }

  #closeCall(open: OpenCall): string {
    const place = itemOf(open);
    const input = open.isCustom ? customInput(open.said.text) : open.said.text || '{}';
    const item = callItem(open, input, 'completed');
    const done = open.isCustom
      ? this.#event('response.custom_tool_call_input.delta', `${place},"delta":"${input}"`) +
        this.#event('response.custom_tool_call_input.done', `${place},"input":"${input}"`)
      : this.#event(
          'response.function_call_arguments.done',
          `${place},"name":"${open.name}","arguments":"${input}"`,
        );
    return done + this.#done(open, item);
  }

  #response(status: Status, usage: Usage | null): string {
    const reason = status === 'incomplete' ? this.#incompleteReason : null;
    this.#settings ??= settingsOf(this.#options.request);
    const { before, behind } = this.#settings;
    const head = `{"id":"resp_${this.#id}","object":"response","created_at":${this.#options.createdS}`;
    const incomplete = reason === null ? 'null' : `{"reason":"${reason}"}`;
    const output = status === 'in_progress' ? '' : this.#output.join(',');
    return (
      `${head},"status":"${status}","background":false,"error":null,"incomplete_details":${incomplete},` +
      `${before},"model":"${this.#model}","output":[${output}],${behind},"usage":${usageJson(usage)}}`
    );
  }

  /** @param place what its item has behind the number, up to the text. */
  #delta(head: string, place: string, text: Literal, tail = '"}\n\n'): string {
    return this.#options.isStreamed ? `${head}${this.#events++}${place}${text}${tail}` : '';
  }

  #event(type: string, members: string): string {
    return this.#options.isStreamed ? `${headOf(type)}${this.#events++},${members}}\n\n` : '';
  }
}

const itemOf = ({ id, index }: Open): string => `"item_id":"${id}","output_index":${index}`;
const placeOf = (open: Open): string => `${itemOf(open)},"content_index":0`;
const summaryOf = (open: Open): string => `${itemOf(open)},"summary_index":0`;

const partOf = ({ kind, said: { text }, citations }: OpenText): string =>
  kind === 'text'
    ? `{"type":"output_text","text":"${text}","annotations":[${citations.join(',')}],"logprobs":[]}`
    : `{"type":"refusal","refusal":"${text}"}`;

function messageItem(open: OpenText, status: Status): string {
  const content = status === 'in_progress' ? '' : partOf(open);
  const head = `{"id":"${open.id}","type":"message","status":"${status}"`;
  return `${head},"role":"assistant","content":[${content}]}`;
}

const summaryPart = ({ said }: Open): string => `{"type":"summary_text","text":"${said.text}"}`;

function reasoningItem(open: OpenReasoning, status: Status): string {
  const { id, said, signature } = open;
  const summary = said.isEmpty ? '' : summaryPart(open);
  const encrypted = signature === null ? '' : `,"encrypted_content":"${signature}"`;
  return `{"id":"${id}","type":"reasoning","status":"${status}","summary":[${summary}]${encrypted}}`;
}

function callItem({ id, callId, name, isCustom }: OpenCall, input: Literal, status: Status): string {
  const [type, member] = isCustom ? ['custom_tool_call', 'input'] : ['function_call', 'arguments'];
  const head = `{"id":"${id}","type":"${type}","status":"${status}","call_id":"${callId}"`;
  return `${head},"name":"${name}","${member}":"${input}"}`;
}

function settingsOf(request: Record<string, unknown>): { before: string; behind: string } {
  const before = {
    instructions: request['instructions'] ?? null,
    max_output_tokens: request['max_output_tokens'] ?? null,
    metadata: request['metadata'] ?? {},
  };
  const behind = {
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
  };
  return { before: jsonOf(before).slice(1, -1), behind: jsonOf(behind).slice(1, -1) };
}

function usageJson(usage: Usage | null): string {
  if (usage === null) return 'null';
  const { input, cached, cacheWrite = 0, output, reasoning } = usage;
  return jsonOf({
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: cached,
      ...(cacheWrite > 0 && { cache_write_tokens: cacheWrite }),
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input + output,
  });
}
