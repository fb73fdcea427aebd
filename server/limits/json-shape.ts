import { skipBlank, skipColon, skipString, skipValue, stringOf } from '#server/wire/json.ts';

/** Compares JSON with a list of the members, types and values that it may have. Pure. */

/**
 * What the objects at one place of a document may have. An array there is compared element by element.
 * Strings, numbers and booleans are not compared, and a member whose value is null counts as absent.
 */
export type Shape = {
  /** The members, each with the shape of its value. */
  members: Readonly<Record<string, Listed>>;
  /** The values of the member `type`. Absent: it is a member like others. */
  types?: ReadonlySet<string>;
  /** The members of which an object without a type has at least one. */
  untyped?: readonly string[];
  /** Which member an object of a type needs when it has another one. */
  needs?: Readonly<Record<string, { when: string; needs: string }>>;
};
/** What a member may hold: anything, one or several of these strings, or objects of a shape. */
export type Listed = 'anything' | readonly string[] | Shape;

/** The first thing in a document that its shape does not list. */
export type Unlisted = {
  /** Where it is, such as `tools[0].type`. */
  path: string;
  kind: 'member' | 'type' | 'value' | 'duplicate' | 'incomplete';
  /** Its name, or its value where the value is not listed. */
  name: string;
};

// Not shared with json.ts, whose scanner would be a tenth slower with imported constants.
const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const LETTER_N = 0x6e;
/** Stands for an offset after something unlisted was found. */
const FOUND = -1;
/** Names and values are the client's; an error repeats no more of them. */
const NAME_CHARACTERS_MAX = 100;

/**
 * The first unlisted thing of a valid JSON document; null: everything is listed. Values that may be anything
 * are skipped without being read.
 */
export function findUnlisted(bytes: Buffer, shape: Shape): Unlisted | null {
  const walk = new ShapeWalk(bytes);
  walk.value(skipBlank(bytes, 0), shape);
  return walk.found;
}

/** The object that is being compared: its type, and whether each member so far has more than null or "". */
type Seen = { members: Map<string, boolean>; type: string | null };

class ShapeWalk {
  found: Unlisted | null = null;
  readonly #bytes: Buffer;
  readonly #path: (string | number)[] = [];

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** @returns the offset after the value, or {@link FOUND}. */
  value(at: number, listed: Listed): number {
    const bytes = this.#bytes;
    if (listed === 'anything') return skipValue(bytes, at, 0);
    if (bytes[at] === OPEN_BRACKET) return this.#array(at, listed);
    if (!('members' in listed)) return this.#text(at, listed);
    return bytes[at] === OPEN_BRACE ? this.#object(at, listed) : skipValue(bytes, at, 0);
  }

  #text(at: number, values: readonly string[]): number {
    const end = skipValue(this.#bytes, at, 0);
    const text = this.#bytes[at] === QUOTE ? stringOf(this.#bytes, at, end) : null;
    return text !== null && values.includes(text) ? end : this.#stop('value', text ?? 'another value');
  }

  #array(open: number, listed: Listed): number {
    const bytes = this.#bytes;
    let at = skipBlank(bytes, open + 1);
    if (bytes[at] === CLOSE_BRACKET) return at + 1;
    for (let index = 0; ; index++) {
      this.#path.push(index);
      at = this.value(at, listed);
      if (at === FOUND) return FOUND;
      this.#path.pop();
      at = skipBlank(bytes, at);
      if (bytes[at] !== COMMA) return at + 1;
      at = skipBlank(bytes, at + 1);
    }
  }

  #object(open: number, shape: Shape): number {
    const bytes = this.#bytes;
    const seen: Seen = { members: new Map(), type: null };
    let at = skipBlank(bytes, open + 1);
    while (bytes[at] !== CLOSE_BRACE) {
      const end = skipString(bytes, at);
      at = this.#member(stringOf(bytes, at, end), skipColon(bytes, end), shape, seen);
      if (at === FOUND) return FOUND;
      at = skipBlank(bytes, at);
      if (bytes[at] === COMMA) at = skipBlank(bytes, at + 1);
    }
    return this.#isComplete(shape, seen) ? at + 1 : FOUND;
  }

  #member(name: string, at: number, shape: Shape, seen: Seen): number {
    const bytes = this.#bytes;
    this.#path.push(name.slice(0, NAME_CHARACTERS_MAX));
    if (seen.members.has(name)) return this.#stop('duplicate', name);
    const isNull = bytes[at] === LETTER_N;
    seen.members.set(name, !isNull && (bytes[at] !== QUOTE || bytes[at + 1] !== QUOTE));
    let end: number;
    if (isNull) end = skipValue(bytes, at, 0);
    else if (name === 'type' && shape.types) {
      end = skipValue(bytes, at, 0);
      seen.type = bytes[at] === QUOTE ? stringOf(bytes, at, end) : '';
      if (!shape.types.has(seen.type)) return this.#stop('type', seen.type);
    } else if (Object.hasOwn(shape.members, name)) end = this.value(at, shape.members[name] as Listed);
    else return this.#stop('member', name);
    if (end !== FOUND) this.#path.pop();
    return end;
  }

  #isComplete({ types, untyped, needs }: Shape, { members, type }: Seen): boolean {
    if (types && type === null && untyped && !untyped.some((name) => members.get(name))) {
      this.#path.push('type');
      this.#stop('incomplete', 'type');
      return false;
    }
    const rule = type === null ? undefined : needs?.[type];
    if (!rule || !members.get(rule.when) || members.get(rule.needs)) return true;
    this.#path.push(rule.when);
    this.#stop('incomplete', rule.when);
    return false;
  }

  #stop(kind: Unlisted['kind'], name: string): typeof FOUND {
    let path = '';
    for (const part of this.#path) {
      if (typeof part === 'number') path += `[${part}]`;
      else path += path === '' ? part : `.${part}`;
    }
    this.found = { path, kind, name: name.slice(0, NAME_CHARACTERS_MAX) };
    return FOUND;
  }
}
