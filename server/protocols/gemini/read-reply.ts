import { stringOrNull } from '#server/protocols/fields.ts';
import { type Literal, literalOf, quoted } from '#server/protocols/literal.ts';
import type { FinishReason, ReplyEvent, ReplyReader } from '#server/protocols/reply-events.ts';
import { REDACTED_SIGNATURE } from '#server/protocols/signatures.ts';
import { asRecord } from '#server/wire/counts.ts';
import { elementsAt, rawAt } from '#server/wire/raw-json.ts';

/** Gemini's words for the end of a reply; any other ends it as `stop`. */
const FINISHES: ReadonlyMap<unknown, FinishReason> = new Map([
  ['MAX_TOKENS', 'length'],
  ...[
    'SAFETY',
    'RECITATION',
    'BLOCKLIST',
    'PROHIBITED_CONTENT',
    'SPII',
    'IMAGE_SAFETY',
    'IMAGE_PROHIBITED_CONTENT',
    'IMAGE_RECITATION',
  ].map((name) => [name, 'content_filter'] as const),
]);

/**
 * Reads the responses of Gemini's `generateContent`. Each event of a stream is a response with the next
 * parts, and the connection ends behind the last. Pure.
 */
export class GeminiReplyReader implements ReplyReader {
  readonly #mark: string;
  #id: string | null = null;
  #calls = 0;
  #isFinished = false;
  readonly isOver = false;

  /** @param mark put before each signature. */
  constructor(mark: string) {
    this.#mark = mark;
  }

  read(value: unknown, json: string): ReplyEvent[] {
    const response = asRecord(value);
    const candidates = Array.isArray(response?.['candidates']) ? (response['candidates'] as unknown[]) : [];
    const at = candidates.findIndex((each) => (asRecord(each)?.['index'] ?? 0) === 0);
    const candidate = asRecord(candidates[at]);
    const isBlocked = stringOrNull(asRecord(response?.['promptFeedback'])?.['blockReason']) !== null;
    if (!response || (!candidate && !isBlocked)) return [];
    const parts = asRecord(candidate?.['content'])?.['parts'];
    const events = [
      ...this.#start(response),
      ...this.#parts(parts, () => elementsAt(json, 'candidates', at, 'content', 'parts')),
      ...citationsOf(candidate),
    ];
    const reason = isBlocked ? 'SAFETY' : stringOrNull(candidate?.['finishReason']);
    if (reason !== null && !this.#isFinished) {
      this.#isFinished = true;
      const ended = FINISHES.get(reason) ?? 'stop';
      events.push({ type: 'finish', reason: ended === 'stop' && this.#calls > 0 ? 'tool_calls' : ended });
    }
    return events;
  }

  whole(value: unknown, json: string): ReplyEvent[] {
    return this.read(value, json);
  }

  #start(response: Record<string, unknown>): ReplyEvent[] {
    if (this.#id !== null) return [];
    this.#id = stringOrNull(response['responseId']) ?? '';
    const model = literalOf(stringOrNull(response['modelVersion']) ?? '');
    return [{ type: 'start', id: literalOf(this.#id), model }];
  }

  /** @param texts the same as latin-1 JSON, of which the arguments of calls are taken as they stand. */
  #parts(parts: unknown, texts: () => string[]): ReplyEvent[] {
    if (!Array.isArray(parts)) return [];
    const hasCalls = parts.some((each) => asRecord(each)?.['functionCall'] !== undefined);
    const raw = hasCalls ? texts() : [];
    return parts.flatMap((each, index) => {
      const part = asRecord(each);
      return part ? this.#part(part, raw[index] ?? '') : [];
    });
  }

  /** @param raw the same as latin-1 JSON. */
  #part(part: Record<string, unknown>, raw: string): ReplyEvent[] {
    const signature = this.#signature(part['thoughtSignature']);
    const call = asRecord(part['functionCall']);
    // The signature of a call is needed before it, that of a text behind it.
    if (call) return [...signature, ...this.#call(call, quoted(rawAt(raw, 'functionCall', 'args') ?? '{}'))];
    const text = stringOrNull(part['text']);
    if (text !== null) {
      const type = part['thought'] === true ? 'reasoning' : 'text';
      return [...(text === '' ? [] : [{ type, text: literalOf(text) } as const]), ...signature];
    }
    return [...imageOf(asRecord(part['inlineData'])), ...signature];
  }

  #call(call: Record<string, unknown>, input: Literal): ReplyEvent[] {
    const index = this.#calls++;
    const id = stringOrNull(call['id']) ?? `call_${this.#id ?? ''}_${index}`;
    const name = stringOrNull(call['name']) ?? 'unnamed';
    return [
      { type: 'tool_call', index, id: literalOf(id), name: literalOf(name) },
      { type: 'tool_arguments', index, text: input },
    ];
  }

  #signature(value: unknown): ReplyEvent[] {
    const signature = stringOrNull(value);
    if (signature === null || signature === '') return [];
    if (signature.startsWith(REDACTED_SIGNATURE))
      return [{ type: 'redacted_reasoning', data: literalOf(signature.slice(REDACTED_SIGNATURE.length)) }];
    return [{ type: 'signature', signature: `${this.#mark}${literalOf(signature)}` }];
  }
}

function imageOf(inline: Record<string, unknown> | null): ReplyEvent[] {
  const [type, data] = [stringOrNull(inline?.['mimeType']), stringOrNull(inline?.['data'])];
  if (data === null || !type?.startsWith('image/')) return [];
  return [{ type: 'image', url: literalOf(`data:${type};base64,${data}`) }];
}

function citationsOf(candidate: Record<string, unknown> | null): ReplyEvent[] {
  const chunks = asRecord(candidate?.['groundingMetadata'])?.['groundingChunks'];
  return (Array.isArray(chunks) ? (chunks as unknown[]) : []).flatMap((each): ReplyEvent[] => {
    const web = asRecord(asRecord(each)?.['web']);
    const url = stringOrNull(web?.['uri']);
    const title = literalOf(stringOrNull(web?.['title']) ?? '');
    return url === null ? [] : [{ type: 'citation', url: literalOf(url), title }];
  });
}
