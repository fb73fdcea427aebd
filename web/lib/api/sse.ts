/** Parses server-sent events. */

/** The maximum length of one event. */
const EVENT_CHARACTERS_MAX = 1_000_000;
const LINE_END = /\r\n|\n|\r/;

/** An incremental parser: accepts text chunks and returns the data of complete events. */
export class EventReader {
  #rest = '';
  #data: string[] = [];
  #size = 0;

  /** @throws {RangeError} if an event exceeds the maximum length. */
  push(text: string): string[] {
    const found: string[] = [];
    const lines = (this.#rest + text).split(LINE_END);
    this.#rest = lines.pop() ?? '';
    // A line feed may follow.
    if (this.#rest === '' && text.endsWith('\r')) this.#rest = `${lines.pop() ?? ''}\r`;
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) found.push(this.#data.join('\n'));
        this.#data = [];
        this.#size = 0;
      } else if (line.startsWith('data:')) {
        const data = line.slice(line.startsWith('data: ') ? 6 : 5);
        this.#data.push(data);
        this.#size += data.length;
      }
    }
    if (this.#size + this.#rest.length > EVENT_CHARACTERS_MAX)
      throw new RangeError('an event of the reply is too long');
    return found;
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
