import { LINE_BYTES_MAX } from '#db/archive/bounds.ts';

const LINE_BREAK = 0x0a;

/**
 * Splits a stream into texts of complete lines, including their line breaks.
 * @throws {Error} when a line is too long, or the last one has no line break.
 */
export async function* linesIn(stream: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    const end = chunk.lastIndexOf(LINE_BREAK) + 1;
    if (end > 0) {
      const lines = chunk.subarray(0, end);
      yield (rest.length === 0 ? lines : Buffer.concat([...rest, lines])).toString();
      [rest, bytes] = [[], 0];
    }
    if (end < chunk.length) rest.push(chunk.subarray(end));
    bytes += chunk.length - end;
    if (bytes > LINE_BYTES_MAX) throw new Error('a line is too long');
  }
  if (bytes > 0) throw new Error('the last line has no line break');
}
