import { LINE_BYTES_MAX } from '#db/archive/bounds.ts';

const LINE_BREAK = 0x0a;

/**
 * Splits a stream into chunks of complete lines, including their line breaks.
 * @throws {Error} when a line is too long, or the last one has no line break.
 */
export async function* lineChunksOf(text: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
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
    if (bytes > LINE_BYTES_MAX) throw new Error('a line is too long');
  }
  if (bytes > 0) throw new Error('the last line has no line break');
}

/** Splits a stream into pages of lines, without their line breaks. */
export async function* linesOf(text: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  for await (const lines of lineChunksOf(text)) yield lines.toString('utf8', 0, lines.length - 1).split('\n');
}

/** The start and end offset of each line. */
export function* lineSpans(lines: Buffer): Generator<readonly [start: number, end: number]> {
  for (let start = 0; start < lines.length;) {
    const end = lines.indexOf(LINE_BREAK, start);
    yield [start, end];
    start = end + 1;
  }
}
