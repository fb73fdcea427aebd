/** A line holds one event; the longest are terms with long lists of names, of some hundred kilobytes. */
const LINE_BYTES_MAX = 16 * 1024 * 1024;
const LINE_BREAK = 0x0a;

/**
 * The lines of a text with what ends each, as many at once as each piece of it ends. @throws {Error} where a
 * line has no end.
 */
export async function* wholeLinesOf(text: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of text) {
    const end = chunk.lastIndexOf(LINE_BREAK) + 1;
    if (end > 0) {
      yield Buffer.concat([...rest, chunk.subarray(0, end)]);
      [rest, bytes] = [[], 0];
    }
    if (end < chunk.length) rest.push(chunk.subarray(end));
    bytes += chunk.length - end;
    if (bytes > LINE_BYTES_MAX) throw new Error('a line without an end');
  }
  if (bytes > 0) throw new Error('its last line has no end');
}

/** The same as texts, without what ends them. */
export async function* linesOf(text: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  for await (const lines of wholeLinesOf(text)) yield lines.toString('utf8', 0, lines.length - 1).split('\n');
}

/** Where each of such lines begins and ends. */
export function* spansOf(lines: Buffer): Generator<readonly [start: number, end: number]> {
  for (let start = 0; start < lines.length;) {
    const end = lines.indexOf(LINE_BREAK, start);
    yield [start, end];
    start = end + 1;
  }
}
