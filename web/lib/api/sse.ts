/** Parses server-sent events. */

/** The maximum length of one event. */
const EVENT_CHARACTERS_MAX = 1_000_000;
const LINE_END = /\r\n|\n|\r/g;

/**
 * An incremental parser: accepts text chunks and returns the data of complete events. Each character is
 * searched once, however small the chunks are.
 */
export class EventReader {
  /** The parts of the line that is not complete. */
  #line: string[] = [];
  #data: string[] = [];
  #size = 0;
  /** The last line was ended by a CR; a LF that follows belongs to it. */
  #endedByCr = false;

  /** @throws {RangeError} if an event exceeds the maximum length. */
  push(chunk: string): string[] {
    if (chunk === '') return [];
    const text = this.#endedByCr && chunk.startsWith('\n') ? chunk.slice(1) : chunk;
    this.#endedByCr = chunk.endsWith('\r');
    const found: string[] = [];
    let start = 0;
    for (const { 0: lineEnd, index } of text.matchAll(LINE_END)) {
      this.#line.push(text.slice(start, index));
      this.#add(index - start);
      this.#takeLine(this.#line.join(''), found);
      this.#line = [];
      start = index + lineEnd.length;
    }
    this.#add(text.length - start);
    this.#line.push(text.slice(start));
    return found;
  }

  #takeLine(line: string, found: string[]): void {
    if (line === '') {
      if (this.#data.length > 0) found.push(this.#data.join('\n'));
      this.#data = [];
      this.#size = 0;
    } else if (line.startsWith('data:')) {
      this.#data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
    }
  }

  #add(characters: number): void {
    this.#size += characters;
    if (this.#size > EVENT_CHARACTERS_MAX) throw new RangeError('an event of the reply is too long');
  }
}

/** Streams the data of each event of a body. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events = new EventReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      yield* events.push(done ? `${decoder.decode()}\n\n` : decoder.decode(value, { stream: true }));
      if (done) return;
    }
  } finally {
    // Cancels the response when the consumer stops.
    await reader.cancel().catch(() => {});
  }
}
