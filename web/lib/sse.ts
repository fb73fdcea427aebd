/** Reads a streamed reply, event by event. */

/** Of one event; the longest that a provider sends is a few kilobytes. */
const EVENT_CHARACTERS_MAX = 1_000_000;
const LINE_END = /\r\n|\n|\r/;

/**
 * Takes text as it comes and gives the data of the events that are complete. Pure but for what it remembers.
 */
export class EventReader {
  #rest = '';
  #data: string[] = [];
  #size = 0;

  /** @throws {RangeError} when an event does not end. */
  take(text: string): string[] {
    const found: string[] = [];
    const lines = (this.#rest + text).split(LINE_END);
    this.#rest = lines.pop() ?? '';
    // A line feed may still belong to it.
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

/** The data of each event of a body, as they come. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events = new EventReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      yield* events.take(done ? `${decoder.decode()}\n\n` : decoder.decode(value, { stream: true }));
      if (done) return;
    }
  } finally {
    // Whoever stops reading wants no more of it.
    await reader.cancel().catch(() => {});
  }
}
