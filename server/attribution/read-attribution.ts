import { TAGS_MAX } from '#db/events/attribution-events.ts';
import { normalizeValue } from '#db/attribution/value.ts';
import { METADATA_BYTES_MAX, TAGS_READ_MAX, TEXT_CHARACTERS_MAX } from '#server/attribution/bounds.ts';
import {
  ATTRIBUTION_MEMBERS,
  END_USER_HEADERS,
  SESSION_HEADERS,
  TAG_HEADERS,
} from '#server/attribution/sources.ts';
import { splitUserId } from '#server/attribution/user-id.ts';
import { type ScannedObject, valueOf } from '#server/wire/json.ts';

/** Finds the end user, the session and the tags of a call in what its client has sent. Pure. */

export type AttributionValues = {
  endUser: string | null;
  session: string | null;
  /** Distinct, at most {@link TAGS_MAX}, in the client's order. */
  tags: readonly string[];
  /** Values that can't be used: too long, with control characters, sent twice, or a ninth tag. */
  unusable: number;
};

const NO_TAGS: readonly string[] = [];
/** The values of most calls: their clients send none. */
const NO_VALUES: AttributionValues = Object.freeze({
  endUser: null,
  session: null,
  tags: NO_TAGS,
  unusable: 0,
});

/**
 * @param rawHeaders names and values alternating, as Node reads them: in latin1.
 * @param body the bytes that the members were found in, which are read from there.
 */
export function readAttribution(
  rawHeaders: readonly string[],
  body: Buffer,
  { members }: Pick<ScannedObject, 'members'>,
): AttributionValues {
  const headers = findHeaders(rawHeaders);
  if (headers === null && !hasMember(members)) return NO_VALUES;
  return new Reader(headers, body, members).read();
}

function hasMember(members: ScannedObject['members']): boolean {
  for (const name of ATTRIBUTION_MEMBERS) if (members.has(name)) return true;
  return false;
}

class Reader {
  readonly #headers: FoundHeaders | null;
  readonly #body: Buffer;
  readonly #members: ScannedObject['members'];
  #metadata: object | null | undefined;
  #unusable = 0;

  constructor(headers: FoundHeaders | null, body: Buffer, members: ScannedObject['members']) {
    this.#headers = headers;
    this.#body = body;
    this.#members = members;
  }

  read(): AttributionValues {
    const userId = this.#ofMetadata('user_id');
    const split = typeof userId === 'string' ? splitUserId(userId) : null;
    const endUser =
      this.#header(END_USER_HEADERS) ??
      this.#member('user') ??
      this.#member('safety_identifier') ??
      this.#value(split === null ? userId : split.endUser);
    const session =
      this.#header(SESSION_HEADERS) ??
      this.#member('session_id') ??
      this.#value(this.#ofMetadata('session_id')) ??
      this.#value(split?.session) ??
      this.#cacheKey();
    const tags = this.#tags();
    return { endUser, session, tags, unusable: this.#unusable };
  }

  /** The first valid value among these headers. */
  #header(sources: readonly { header: string }[]): string | null {
    if (this.#headers === null) return null;
    for (const { header } of sources) {
      const sent = this.#headers.get(header);
      if (sent === undefined) continue;
      // Which of two values is meant is not known.
      const value = this.#value(sent.length === 1 ? decode(sent[0] as string) : false);
      if (value !== null) return value;
    }
    return null;
  }

  /** A valid value of what a client has sent; null for another, which is counted. */
  #value(sent: unknown): string | null {
    if (sent === undefined || sent === null || sent === '') return null;
    // Ids of databases come as numbers.
    const text = typeof sent === 'number' && Number.isSafeInteger(sent) ? String(sent) : sent;
    const value =
      typeof text === 'string' && text.length <= TEXT_CHARACTERS_MAX ? normalizeValue(text) : null;
    if (value === null) this.#unusable++;
    return value;
  }

  #member(name: string): string | null {
    return this.#value(this.#ofBody(name, TEXT_CHARACTERS_MAX));
  }

  /** The value of a member; `false`, which is no value, where it is too long to be read. */
  #ofBody(name: string, bytesMax: number): unknown {
    const span = this.#members.get(name);
    if (span === undefined) return undefined;
    return span.end - span.start > bytesMax ? false : valueOf(this.#body, span);
  }

  #ofMetadata(name: string): unknown {
    if (this.#metadata === undefined) {
      const metadata = this.#ofBody('metadata', METADATA_BYTES_MAX);
      if (metadata === false) this.#unusable++;
      this.#metadata = typeof metadata === 'object' ? metadata : null;
    }
    const metadata = this.#metadata;
    return metadata !== null && Object.hasOwn(metadata, name)
      ? (metadata as Record<string, unknown>)[name]
      : undefined;
  }

  /** Applications put names of prompts here as well, which are no sessions; Codex and opencode put ids. */
  #cacheKey(): string | null {
    const key = this.#ofBody('prompt_cache_key', TEXT_CHARACTERS_MAX);
    return typeof key === 'string' && SESSION_ID.test(key) ? key : null;
  }

  #tags(): readonly string[] {
    if (this.#headers !== null)
      for (const { header } of TAG_HEADERS) {
        const sent = this.#headers.get(header);
        if (sent === undefined) continue;
        const text = decode(sent.join());
        const tags = this.#distinct(text === false ? [text] : text.split(',', TAGS_READ_MAX));
        if (tags.length > 0) return tags;
      }
    if (!this.#members.has('metadata')) return NO_TAGS;
    const tags = this.#ofMetadata('tags');
    if (typeof tags === 'string') return this.#distinct(tags.split(',', TAGS_READ_MAX));
    return Array.isArray(tags) ? this.#distinct(tags.slice(0, TAGS_READ_MAX)) : NO_TAGS;
  }

  #distinct(sent: readonly unknown[]): readonly string[] {
    const tags = new Set<string>();
    for (const each of sent) {
      // An empty one stands between two commas.
      if (typeof each === 'string' && each.trim() === '') continue;
      const tag = this.#value(each);
      if (tag === null) continue;
      if (tags.size < TAGS_MAX) tags.add(tag);
      else if (!tags.has(tag)) this.#unusable++;
    }
    return [...tags];
  }
}

const SESSION_ID = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[0-9A-Za-z]{10,64})$/i;

/** The values of the headers of the table, by their names in lower case. */
type FoundHeaders = Map<string, string[]>;

const NAMES = new Set([...END_USER_HEADERS, ...SESSION_HEADERS, ...TAG_HEADERS].map(({ header }) => header));
/** The length and the first letter of a name: they are enough to pass over nearly all other headers. */
const shapeOf = (name: string): number => name.length * 0x100 + (name.charCodeAt(0) | 0x20);
const SHAPES = new Set([...NAMES].map(shapeOf));

function findHeaders(rawHeaders: readonly string[]): FoundHeaders | null {
  let found: FoundHeaders | null = null;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const sent = rawHeaders[at] as string;
    if (!SHAPES.has(shapeOf(sent))) continue;
    const name = sent.toLowerCase();
    if (!NAMES.has(name)) continue;
    found ??= new Map();
    const values = found.get(name);
    if (values) values.push(rawHeaders[at + 1] as string);
    else found.set(name, [rawHeaders[at + 1] as string]);
  }
  return found;
}

/** A header's text, of which Node gives the bytes as characters; false where they are not UTF-8. */
function decode(text: string): string | false {
  if (!BEYOND_ASCII.test(text)) return text;
  try {
    return UTF8.decode(Buffer.from(text, 'latin1'));
  } catch {
    return false;
  }
}

const BEYOND_ASCII = /[^\0-\x7f]/;
const UTF8 = new TextDecoder('utf-8', { fatal: true });
