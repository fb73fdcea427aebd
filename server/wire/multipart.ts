import {
  MULTIPART_BOUNDARY_CHARACTERS_MAX,
  MULTIPART_PART_HEAD_BYTES_MAX,
  MULTIPART_PARTS_MAX,
} from '#server/wire/bounds.ts';

/**
 * A reader of `multipart/form-data` on bytes that come in chunks. It holds the head of one part and a
 * possible beginning of a delimiter, nothing else, whatever the size of the body. Since the bytes are passed
 * on as they are, it accepts only forms that every reader understands alike: a field that is another one for
 * the upstream than for the relay would get past its permissions. Pure.
 */

/** A part, by its head. */
export type MultipartPart = {
  /** The name of the form's field. */
  name: string;
  /** Null: the part is a value and no file. */
  filename: string | null;
  contentType: string | null;
  /** Where its content begins in the body. */
  at: number;
};

export type MultipartEvent =
  | { type: 'part'; part: MultipartPart }
  /** Some of the content of the last part. The bytes are the chunk's own. */
  | { type: 'content'; bytes: Buffer }
  /** The last part is complete. @property at the end of its content in the body. */
  | { type: 'part_end'; at: number }
  /** The last delimiter has been read. */
  | { type: 'end' };

/** Why bytes are not a form: its message follows "The body is not a valid form: ". */
export class MultipartError extends Error {
  override name = 'MultipartError';
}

/** `delimiter`: behind one, where the line or the form ends. `end`: behind the last one. */
type State = 'start' | 'delimiter' | 'head' | 'content' | 'end';

const CR = 0x0d;
const NO_BYTES = Buffer.alloc(0);
const LINE_END = '\r\n';
const HEAD_END = '\r\n\r\n';

export class MultipartReader {
  readonly #delimiter: Buffer;
  #state: State = 'start';
  /** Bytes that can't be judged before more have come. */
  #held: Buffer = NO_BYTES;
  /** Bytes of the body before the held ones. */
  #at = 0;
  #parts = 0;

  /** @param boundary as the Content-Type states it. */
  constructor(boundary: string) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  }

  /** Whether the form is complete. */
  get isComplete(): boolean {
    return this.#state === 'end';
  }

  /** Bytes of the body that were read. */
  get size(): number {
    return this.#at + this.#held.length;
  }

  /** @throws {MultipartError} */
  push(chunk: Buffer): MultipartEvent[] {
    const events: MultipartEvent[] = [];
    let bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      const read = this.#step(bytes, events);
      if (read === null) break;
      this.#at += read;
      bytes = bytes.subarray(read);
    }
    // A copy: the chunk's memory may be reused, and is much larger.
    this.#held = bytes.length === 0 ? NO_BYTES : Buffer.from(bytes);
    return events;
  }

  /** Reads one step. @returns the bytes that it took; null: more have to come first. */
  #step(bytes: Buffer, events: MultipartEvent[]): number | null {
    switch (this.#state) {
      case 'start':
        return this.#start(bytes);
      case 'delimiter':
        return this.#afterDelimiter(bytes, events);
      case 'head':
        return this.#head(bytes, events);
      case 'content':
        return bytes.length === 0 ? null : this.#content(bytes, events);
      case 'end':
        return epilogue(bytes, this.#at);
    }
  }

  /** The first delimiter, without the line end before it. */
  #start(bytes: Buffer): number | null {
    const first = this.#delimiter.subarray(LINE_END.length);
    const length = Math.min(first.length, bytes.length);
    if (!bytes.subarray(0, length).equals(first.subarray(0, length)))
      throw new MultipartError('it does not begin with the boundary of its Content-Type');
    if (bytes.length < first.length) return null;
    this.#state = 'delimiter';
    return first.length;
  }

  #afterDelimiter(bytes: Buffer, events: MultipartEvent[]): number | null {
    if (bytes.length < 2) return null;
    const next = bytes.toString('latin1', 0, 2);
    if (next === '--') {
      this.#state = 'end';
      events.push({ type: 'end' });
    } else if (next === LINE_END) this.#state = 'head';
    else throw new MultipartError('a boundary is followed by something else than a line end');
    return 2;
  }

  #head(bytes: Buffer, events: MultipartEvent[]): number | null {
    const end = bytes.indexOf(HEAD_END, 0, 'latin1');
    if ((end < 0 ? bytes.length : end) > MULTIPART_PART_HEAD_BYTES_MAX)
      throw new MultipartError(`the head of a part exceeds ${MULTIPART_PART_HEAD_BYTES_MAX} bytes`);
    if (end < 0) return null;
    this.#parts++;
    if (this.#parts > MULTIPART_PARTS_MAX)
      throw new MultipartError(`it has more than ${MULTIPART_PARTS_MAX} parts`);
    const read = end + HEAD_END.length;
    events.push({
      type: 'part',
      part: { ...parseHead(bytes.toString('utf8', 0, end)), at: this.#at + read },
    });
    this.#state = 'content';
    return read;
  }

  /** Content up to the next delimiter, or to what may be the beginning of one. */
  #content(bytes: Buffer, events: MultipartEvent[]): number | null {
    const found = bytes.indexOf(this.#delimiter);
    const end = found < 0 ? this.#possibleDelimiter(bytes) : found;
    if (end > 0) events.push({ type: 'content', bytes: bytes.subarray(0, end) });
    if (found < 0) return end === 0 ? null : end;
    events.push({ type: 'part_end', at: this.#at + found });
    this.#state = 'delimiter';
    return found + this.#delimiter.length;
  }

  /** Where the bytes end that no delimiter can begin in. */
  #possibleDelimiter(bytes: Buffer): number {
    const from = Math.max(0, bytes.length - this.#delimiter.length + 1);
    for (let at = bytes.indexOf(CR, from); at >= 0; at = bytes.indexOf(CR, at + 1))
      if (bytes.subarray(at).equals(this.#delimiter.subarray(0, bytes.length - at))) return at;
    return bytes.length;
  }
}

/** Behind the form there is a line end or nothing. */
function epilogue(bytes: Buffer, at: number): number | null {
  if (bytes.length === 0) return null;
  if (bytes.length > LINE_END.length || !LINE_END.startsWith(bytes.toString('latin1')))
    throw new MultipartError(`something follows its last boundary, at byte ${at}`);
  return null;
}

const NAME = /name="([^"\\\p{Cc}]{1,200})"/u.source;
/** Quotes within are escaped, or written as %22. */
const FILENAME = /filename="((?:[^"\\\p{Cc}]|\\[^\p{Cc}])*)"/u.source;
const DISPOSITION = new RegExp(`^form-data; *${NAME}(?:; *${FILENAME})?(; *filename\\*=[^;"]+)?$`, 'iu');
const TYPE = /^[\x20-\x7e]{1,200}$/;
/** Text that isn't UTF-8, which the upstream may read in another way. */
const OTHER_CHARSET = /charset *= *"?(?!utf-8|us-ascii)/i;
/** Other headers of a part that change nothing. */
const IGNORED = /^(?:content-length:|content-transfer-encoding: *(?:binary|7bit|8bit) *$)/i;

/** The head of a part: its lines without the blank one. */
function parseHead(head: string): Omit<MultipartPart, 'at'> {
  let disposition: RegExpExecArray | null = null;
  let contentType: string | null = null;
  for (const line of head.split(LINE_END)) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).toLowerCase();
    const value = line.slice(colon + 1).trim();
    if (name === 'content-disposition' && disposition === null) {
      disposition = DISPOSITION.exec(value);
      if (disposition === null) throw new MultipartError(UNREADABLE_DISPOSITION);
    } else if (name === 'content-type' && contentType === null && TYPE.test(value)) contentType = value;
    else if (!IGNORED.test(line))
      throw new MultipartError('a part has a header that is malformed, occurs twice or is unknown in forms');
  }
  if (disposition === null) throw new MultipartError('a part has no Content-Disposition');
  const [, name = '', plain, extended] = disposition;
  const filename = plain ?? (extended === undefined ? null : '');
  if (name === '_charset_' || (filename === null && OTHER_CHARSET.test(contentType ?? '')))
    throw new MultipartError('the text of a part is not UTF-8');
  return { name, filename, contentType };
}

const UNREADABLE_DISPOSITION =
  'the Content-Disposition of a part must be of the form form-data; name="file"; filename="a.mp3"';

const BOUNDARY = /^multipart\/form-data *;(?:[^;"]*;)* *boundary=(?:"([^"\\]+)"|([^;" ]+)) *(?:;|$)/i;
/** The characters that RFC 2046 allows, the last one not a blank. */
const BOUNDARY_CHARACTERS = /^[0-9A-Za-z'()+_,\-./:=? ]*[0-9A-Za-z'()+_,\-./:=?]$/;

/** The boundary that a Content-Type states; null: it is not that of a form, or has no valid one. */
export function boundaryOf(contentType: string): string | null {
  const match = BOUNDARY.exec(contentType);
  const boundary = match?.[1] ?? match?.[2] ?? '';
  if (!BOUNDARY_CHARACTERS.test(boundary)) return null;
  return boundary.length <= MULTIPART_BOUNDARY_CHARACTERS_MAX ? boundary : null;
}
