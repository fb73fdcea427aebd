import type { Usage } from '#db/money.ts';
import { jsonOf, type Literal, literalOf, objectIn } from '#server/protocols/literal.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';
import { REDACTED_SIGNATURE } from '#server/protocols/signatures.ts';

const FINISHES: Record<FinishReason, string> = {
  stop: 'STOP',
  length: 'MAX_TOKENS',
  tool_calls: 'STOP',
  content_filter: 'SAFETY',
};

/** An event around its parts, up to the model. */
const BEFORE_PARTS = '{"candidates":[{"content":{"role":"model","parts":[';
const BEHIND_PARTS = ']},"index":0}]';
const TEXT_HEAD = `data: ${BEFORE_PARTS}{"text":"`;

/** @property signature that of the thought before it, which belongs to the call. */
type Call = { id: Literal; name: Literal; text: Literal; signature: Literal | null };
/** A part of a whole reply: text of one kind, or another part as JSON. */
type Part = { text: Literal; isThought: boolean; signature: Literal | null } | string;

/**
 * Writes a reply as Gemini's `generateContent` does: each event is a whole response with the next parts. A
 * call has no fragments there, so that its arguments are kept until the end. Pure.
 */
export class GeminiReplyWriter implements ReplyWriter {
  readonly #isStreamed: boolean;
  #model: Literal;
  #id: Literal = '';
  /** What stands behind the parts of each event. */
  #tail = '';
  /** The same behind a text, and behind a thought. */
  #textTail = '';
  #thoughtTail = '';
  readonly #calls = new Map<number, Call>();
  /** A signature without a thought before it, which may be that of a call. */
  #signature: Literal | null = null;
  #isThinking = false;
  /** The parts of a whole reply. A streamed one keeps none. */
  readonly #parts: Part[] = [];
  #finish: FinishReason = 'stop';
  #events = 0;

  /** @param model the client's name for the model, where the reply has none. */
  constructor(model: string, isStreamed: boolean) {
    this.#model = literalOf(model);
    this.#isStreamed = isStreamed;
    this.#setTail();
  }

  get events(): number {
    return this.#events;
  }

  take(event: ReplyEvent): string {
    switch (event.type) {
      case 'start':
        this.#id = event.id;
        this.#model = event.model || this.#model;
        this.#setTail();
        return '';
      case 'text':
      case 'refusal':
        return this.#flush() + this.#text(event.text, false);
      case 'reasoning':
        return this.#flush() + this.#text(event.text, true);
      case 'signature':
        return this.#flush() + this.#sign(event.signature);
      case 'redacted_reasoning':
        return this.#flush() + this.#signed(`${REDACTED_SIGNATURE}${event.data}`);
      case 'tool_call': {
        const signature = this.#signature;
        this.#signature = null;
        this.#calls.set(event.index, { id: event.id, name: event.name, text: '', signature });
        return '';
      }
      case 'tool_arguments':
        (this.#calls.get(event.index) as Call).text += event.text;
        return '';
      case 'image':
        return this.#flush() + this.#image(event.url);
      case 'citation':
        return this.#flush() + this.#text(` [${event.title || event.url}](${event.url})`, false);
      case 'finish':
        this.#finish = event.reason;
        return '';
    }
  }

  end(usage: Usage | null): string {
    return this.#flush() + this.#event(this.#last([...this.#calls.values()].map(callPart), usage));
  }

  body(usage: Usage | null): string {
    this.#flush();
    const parts = [...this.#parts.map(partJson), ...[...this.#calls.values()].map(callPart)];
    return this.#last(parts, usage);
  }

  #setTail(): void {
    this.#tail = `,"modelVersion":"${this.#model}","responseId":"${this.#id}"}`;
    this.#textTail = `"}${BEHIND_PARTS}${this.#tail}\n\n`;
    this.#thoughtTail = `","thought":true}${BEHIND_PARTS}${this.#tail}\n\n`;
  }

  #text(text: Literal, isThought: boolean): string {
    this.#isThinking = isThought;
    if (this.#isStreamed) {
      this.#events++;
      return `${TEXT_HEAD}${text}${isThought ? this.#thoughtTail : this.#textTail}`;
    }
    const last = this.#parts.at(-1);
    if (typeof last === 'object' && last.isThought === isThought && last.signature === null)
      last.text += text;
    else this.#parts.push({ text, isThought, signature: null });
    return '';
  }

  /** The signature of a thought that was shown is sent with it; any other may be that of the next call. */
  #sign(signature: Literal): string {
    if (this.#isThinking) return this.#signed(signature);
    this.#signature = signature;
    return '';
  }

  #signed(signature: Literal): string {
    this.#isThinking = false;
    if (this.#isStreamed) return this.#part(signedPart('', signature));
    const last = this.#parts.at(-1);
    if (typeof last === 'object' && last.isThought && last.signature === null) last.signature = signature;
    else this.#parts.push({ text: '', isThought: true, signature });
    return '';
  }

  #image(url: Literal): string {
    this.#isThinking = false;
    return this.#part(imagePart(url));
  }

  #flush(): string {
    const signature = this.#signature;
    this.#signature = null;
    return signature === null ? '' : this.#signed(signature);
  }

  #part(part: string): string {
    if (!this.#isStreamed) {
      this.#parts.push(part);
      return '';
    }
    return this.#event(`${BEFORE_PARTS}${part}${BEHIND_PARTS}${this.#tail}`);
  }

  #last(parts: readonly string[], usage: Usage | null): string {
    const content = `{"role":"model","parts":[${parts.join(',')}]}`;
    const report = usage === null ? '' : `,"usageMetadata":${usageJson(usage)}`;
    const ended = `"finishReason":"${FINISHES[this.#finish]}"`;
    return `{"candidates":[{"content":${content},${ended},"index":0}]${report}${this.#tail}`;
  }

  #event(response: string): string {
    if (!this.#isStreamed) return '';
    this.#events++;
    return `data: ${response}\n\n`;
  }
}

const signedPart = (text: Literal, signature: Literal): string =>
  `{"text":"${text}","thought":true,"thoughtSignature":"${signature}"}`;

function partJson(part: Part): string {
  if (typeof part === 'string') return part;
  const { text, isThought, signature } = part;
  if (signature !== null) return signedPart(text, signature);
  return `{"text":"${text}"${isThought ? ',"thought":true' : ''}}`;
}

const callPart = ({ id, name, text, signature }: Call): string =>
  `{"functionCall":{"id":"${id}","name":"${name}","args":${objectIn(text)}}` +
  `${signature === null ? '' : `,"thoughtSignature":"${signature}"`}}`;

function imagePart(url: Literal): string {
  const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
  return type === undefined
    ? `{"fileData":{"fileUri":"${url}","mimeType":"image/*"}}`
    : `{"inlineData":{"mimeType":"${type}","data":"${data}"}}`;
}

/** Gemini counts tokens of thoughts beside those of the candidates. */
const usageJson = ({ input, cached, output, reasoning }: Usage): string =>
  jsonOf({
    promptTokenCount: input,
    cachedContentTokenCount: cached,
    candidatesTokenCount: output - reasoning,
    thoughtsTokenCount: reasoning,
    totalTokenCount: input + output,
  });
