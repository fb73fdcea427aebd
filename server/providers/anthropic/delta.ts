import { insideQuotes, isLiteral, membersOf, stringEnd } from '#server/wire/raw-json.ts';

/**
 * What the model writes, a few characters at a time. Nearly all of a reply is events of one of three
 * kinds in one spelling, so these are cut out of the text as they stand, without parsing; any other
 * spelling is read the long way. Both cut the same literal out of the same event. Pure.
 */
export type Delta = {
  kind: 'text' | 'thinking' | 'arguments';
  /** The block that it belongs to. */
  index: number;
  /** What stands between the quotes, escapes and all, as latin-1 of UTF-8. */
  inside: string;
};

/** Up to the text itself, with blanks where some servers write them. */
const HEAD = new RegExp(
  [
    /(?:event: ?content_block_delta\n)?/,
    /data: ?\{"type": ?"content_block_delta", ?"index": ?(0|[1-9]\d{0,3}), ?/,
    /"delta": ?\{"type": ?"(text|input_json|thinking)_delta", ?"(text|partial_json|thinking)": ?"/,
  ]
    .map(({ source }) => source)
    .join(''),
  'y',
);
const KINDS: Record<string, Delta['kind']> = {
  'text text': 'text',
  'input_json partial_json': 'arguments',
  'thinking thinking': 'thinking',
};
/** Anthropic pads its events with blanks, so that their length doesn't reveal their content. */
const TAIL = / *\} *\}\s*$/y;
/** Reads a delta in the usual spelling; null says that it has to be read the long way. */
export function quickDelta(event: string): Delta | null {
  HEAD.lastIndex = 0;
  const head = HEAD.exec(event);
  const kind = head && KINDS[`${head[2]} ${head[3]}`];
  if (!kind) return null;
  const start = head[0].length;
  const end = stringEnd(event, start);
  TAIL.lastIndex = end + 1;
  if (!TAIL.test(event)) return null;
  const inside = event.slice(start, end);
  if (!isLiteral(inside)) return null;
  return { kind, index: Number(head[1]), inside };
}

/**
 * Reads a delta in any spelling. @param members the event's own, as JSON.
 * @returns null where it is of a kind that has no place in the convention, such as a citation.
 */
export function anyDelta(members: ReadonlyMap<string, string>): Delta | null {
  const delta = membersOf(members.get('delta') ?? '');
  const index = Number(members.get('index'));
  const of = (kind: Delta['kind'], name: string): Delta | null => {
    const inside = insideQuotes(delta.get(name));
    return inside === null ? null : { kind, index, inside };
  };
  switch (delta.get('type')) {
    case '"text_delta"':
      return of('text', 'text');
    case '"input_json_delta"':
      return of('arguments', 'partial_json');
    case '"thinking_delta"':
      return of('thinking', 'thinking');
    default:
      return null;
  }
}
