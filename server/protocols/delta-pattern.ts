import type { Literal } from '#server/protocols/literal.ts';
import { type Delta, isDelta, type ReplyEvent } from '#server/protocols/reply-events.ts';
import { isLiteral, stringEnd } from '#server/wire/raw-json.ts';

/** Behind a segment: the text or its repetition, a number or a word that no reader looks at, or nothing. */
type Segment = { text: string; before: 'text' | 'again' | 'number' | 'word' | 'end' };

/** Members that differ from event to event, and that say nothing about the text. */
const VARYING = new RegExp(
  [/(?<number>"(?:sequence_number|[a-zA-Z]*[tT]okenCount)": ?)\d+/, /(?<word>"obfuscation": ?")[^"]*/]
    .map(({ source }) => source)
    .join('|'),
  'g',
);
/** Chat completions that report their usage in each event, which has to be inspected. */
const REPORT = /"[a-z_]+_tokens":/;
/** A text that shows whether a part of an event is its text, escapes and all. */
const PROBE = String.raw`probe\n`;
/** Some upstreams have the text of a thought twice. */
const OCCURRENCES_MAX = 2;

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
   * @param read reads an event again. To read a delta twice must change nothing.
   * @returns null where the place of the text isn't certain, or the event reports something else.
   */
  static of(
    event: string,
    delta: Delta,
    read: (event: string) => readonly ReplyEvent[],
  ): DeltaPattern | null {
    const { text } = delta;
    const parts = event.split(`"${text}"`);
    if (text === '' || parts.length < 2 || parts.length > OCCURRENCES_MAX + 1) return null;
    if (REPORT.test(event)) return null;
    // The text may be spelled otherwise, and this be another member.
    const [probed, ...more] = read(parts.join(`"${PROBE}"`));
    if (!isDelta(probed) || more.length > 0 || !isSame(probed, { ...delta, text: PROBE })) return null;
    const segments = parts.flatMap((part, index) => {
      const isLast = index === parts.length - 1;
      const inside = `${index === 0 ? '' : '"'}${part}${isLast ? '' : '"'}`;
      return segmentsOf(inside, isLast ? 'end' : index === 0 ? 'text' : 'again');
    });
    return new DeltaPattern(segments, delta);
  }

  /** The delta of an event of this spelling; null: it has another. */
  read(event: string): Delta | null {
    let at = 0;
    let text: Literal = '';
    for (const segment of this.#segments) {
      if (!hasAt(event, segment.text, at)) return null;
      at += segment.text.length;
      switch (segment.before) {
        case 'text': {
          const end = stringEnd(event, at);
          text = event.slice(at, end);
          at = end;
          break;
        }
        case 'again':
          if (!hasAt(event, text, at)) return null;
          at += text.length;
          break;
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
    if (text === '' || !isLiteral(text)) return null;
    const { type } = this.#delta;
    return type === 'tool_arguments' ? { type, index: this.#delta.index, text } : { type, text };
  }
}

function isSame(one: Delta, other: Delta): boolean {
  if (one.type !== other.type || one.text !== other.text) return false;
  return one.type !== 'tool_arguments' || (other.type === one.type && other.index === one.index);
}

/** @param last what stands behind the text. */
function segmentsOf(text: string, last: Segment['before']): Segment[] {
  const segments: Segment[] = [];
  let from = 0;
  for (const match of text.matchAll(VARYING)) {
    const { number, word } = match.groups as { number?: string; word?: string };
    const name = number ?? word ?? '';
    segments.push({
      text: text.slice(from, match.index + name.length),
      before: word === undefined ? 'number' : 'word',
    });
    from = match.index + match[0].length;
  }
  return [...segments, { text: text.slice(from), before: last }];
}

/** The same as `startsWith`, which compares character by character and takes three times as long. */
const hasAt = (text: string, part: string, at: number): boolean => text.slice(at, at + part.length) === part;

function numberEnd(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code >= 0x30 && code <= 0x39; code = text.charCodeAt(++at));
  return at;
}
