import type { Literal } from '#server/protocols/literal.ts';
import type { ReplyEvent } from '#server/protocols/reply-events.ts';
import { isLiteral, stringEnd } from '#server/wire/raw-json.ts';

/** The events of a reply that carry what the model writes. */
type Delta = Extract<ReplyEvent, { type: 'text' | 'reasoning' | 'tool_arguments' }>;

/** What stands behind a segment: the text, a number or a word that no reader looks at, or nothing. */
type Segment = { text: string; before: 'text' | 'number' | 'word' | 'end' };

/** Members that differ from event to event, and that say nothing about the text. */
const VARYING = new RegExp(
  [
    /(?<name>"(?:sequence_number|[a-zA-Z_]*(?:TokenCount|tokenCount|_tokens))": ?)\d+/,
    /(?<word>"obfuscation": ?")[^"]*/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
);

/**
 * Nearly all events of a reply are the same but for the text that they carry. The spelling of one that was
 * parsed is kept, and an event of the same spelling has the same meaning, so that its text is cut out without
 * parsing it. Pure.
 */
export class DeltaPattern {
  readonly #segments: readonly Segment[];
  readonly #delta: Delta;

  private constructor(segments: readonly Segment[], delta: Delta) {
    this.#segments = segments;
    this.#delta = delta;
  }

  /**
   * @param event latin-1 text, which was read as just `delta`.
   * @returns null where the place of the text isn't certain.
   */
  static of(event: string, delta: Delta): DeltaPattern | null {
    const { text } = delta;
    // Without a backslash in the event there is one spelling of each string.
    if (text === '' || event.includes('\\')) return null;
    const at = event.indexOf(`"${text}"`) + 1;
    if (at === 0 || event.indexOf(`"${text}"`, at) >= 0) return null;
    const before = segmentsOf(event.slice(0, at), 'text');
    return new DeltaPattern([...before, ...segmentsOf(event.slice(at + text.length), 'end')], delta);
  }

  /** The delta of an event of this spelling; null: it has another. */
  read(event: string): ReplyEvent | null {
    let at = 0;
    let text: Literal = '';
    for (const segment of this.#segments) {
      if (!event.startsWith(segment.text, at)) return null;
      at += segment.text.length;
      switch (segment.before) {
        case 'text': {
          const end = stringEnd(event, at);
          text = event.slice(at, end);
          at = end;
          break;
        }
        case 'number':
          at = numberEnd(event, at);
          break;
        case 'word':
          at = stringEnd(event, at);
          break;
        case 'end':
          if (at !== event.length) return null;
      }
    }
    if (!isLiteral(text)) return null;
    const { type } = this.#delta;
    return type === 'tool_arguments' ? { type, index: this.#delta.index, text } : { type, text };
  }
}

export const isDelta = (event: ReplyEvent | undefined): event is Delta =>
  event?.type === 'text' || event?.type === 'reasoning' || event?.type === 'tool_arguments';

/** @param last what stands behind the text. */
function segmentsOf(text: string, last: Segment['before']): Segment[] {
  const segments: Segment[] = [];
  let from = 0;
  for (const match of text.matchAll(VARYING)) {
    const { name, word } = match.groups as { name?: string; word?: string };
    const end = match.index + (name ?? word ?? '').length;
    segments.push({ text: text.slice(from, end), before: name === undefined ? 'word' : 'number' });
    from = match.index + match[0].length;
  }
  return [...segments, { text: text.slice(from), before: last }];
}

function numberEnd(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code >= 0x30 && code <= 0x39; code = text.charCodeAt(++at));
  return at;
}
