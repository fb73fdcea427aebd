import type { Usage } from '#db/money.ts';
import type { FinishReason, ReplyEvent, ReplyWriter } from '#server/protocols/reply-events.ts';
import { asRecord } from '#server/wire/counts.ts';

const FINISHES: Record<FinishReason, string> = {
  stop: 'STOP',
  length: 'MAX_TOKENS',
  tool_calls: 'STOP',
  content_filter: 'SAFETY',
};

type Call = { id: string; name: string; text: string };
type Part = { text?: string; thought?: boolean } & Record<string, unknown>;

/**
 * Writes a reply as Gemini's `generateContent` does: each event is a whole response with the next parts. A
 * call has no fragments there, so that its arguments are kept until the end. Pure.
 */
export class GeminiReplyWriter implements ReplyWriter {
  readonly #isStreamed: boolean;
  #model: string;
  #id = '';
  readonly #calls = new Map<number, Call>();
  /** The parts of a whole reply. A streamed one keeps none. */
  readonly #parts: Part[] = [];
  #finish: FinishReason = 'stop';
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
        this.#id = event.id;
        this.#model = event.model || this.#model;
        return '';
      case 'text':
      case 'refusal':
        return this.#write({ text: event.text });
      case 'reasoning':
        return this.#write({ text: event.text, thought: true });
      case 'signature':
        return this.#write({ text: '', thought: true, thoughtSignature: event.signature });
      case 'redacted_reasoning':
        return this.#write({ text: '', thought: true, thoughtSignature: event.data });
      case 'tool_call':
        this.#calls.set(event.index, { id: event.id, name: event.name, text: '' });
        return '';
      case 'tool_arguments':
        (this.#calls.get(event.index) as Call).text += event.text;
        return '';
      case 'image':
        return this.#write(imagePart(event.url));
      case 'citation':
        return this.#write({ text: ` [${event.title || event.url}](${event.url})` });
      case 'finish':
        this.#finish = event.reason;
        return '';
    }
  }

  end(usage: Usage | null): string {
    return this.#event(this.#response([...this.#calls.values()].map(callPart), usage, true));
  }

  body(usage: Usage | null): string {
    const parts = [...joined(this.#parts), ...[...this.#calls.values()].map(callPart)];
    return JSON.stringify(this.#response(parts, usage, true));
  }

  #write(part: Part): string {
    if (this.#isStreamed) return this.#event(this.#response([part], null, false));
    this.#parts.push(part);
    return '';
  }

  #response(parts: readonly Part[], usage: Usage | null, isLast: boolean): object {
    return {
      candidates: [
        {
          content: { role: 'model', parts },
          ...(isLast && { finishReason: FINISHES[this.#finish] }),
          index: 0,
        },
      ],
      ...(usage && { usageMetadata: usageOf(usage) }),
      modelVersion: this.#model,
      responseId: this.#id,
    };
  }

  #event(response: object): string {
    this.#events++;
    return `data: ${JSON.stringify(response)}\n\n`;
  }
}

/** Texts of one kind in a row are one part. */
function joined(parts: readonly Part[]): Part[] {
  const result: Part[] = [];
  for (const part of parts) {
    const last = result.at(-1);
    if (last?.text !== undefined && part.text !== undefined && last.thought === part.thought)
      result[result.length - 1] = { ...last, ...part, text: last.text + part.text };
    else result.push(part);
  }
  return result;
}

function callPart({ id, name, text }: Call): Part {
  return { functionCall: { id, name, args: argumentsOf(text) } };
}

/** The arguments of a call, which a model may have written as something else than an object. */
function argumentsOf(text: string): object {
  try {
    return asRecord(JSON.parse(text === '' ? '{}' : text)) ?? { arguments: text };
  } catch {
    return { arguments: text };
  }
}

function imagePart(url: string): Part {
  const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
  return mimeType === undefined
    ? { fileData: { fileUri: url, mimeType: 'image/*' } }
    : { inlineData: { mimeType, data } };
}

/** Gemini counts tokens of thoughts beside those of the candidates. */
const usageOf = ({ input, cached, output, reasoning }: Usage): object => ({
  promptTokenCount: input,
  cachedContentTokenCount: cached,
  candidatesTokenCount: output - reasoning,
  thoughtsTokenCount: reasoning,
  totalTokenCount: input + output,
});
