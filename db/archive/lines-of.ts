import { StringDecoder } from 'node:string_decoder';

/** A line holds one event; the longest are terms with long lists of names, of some hundred kilobytes. */
const LINE_CHARACTERS_MAX = 16 * 1024 * 1024;

/** The lines of a text, as many at once as each piece of it ends. @throws {Error} where a line has no end. */
export async function* linesOf(text: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const chunk of text) {
    const lines = (rest + decoder.write(chunk)).split('\n');
    rest = lines.pop() as string;
    if (rest.length > LINE_CHARACTERS_MAX) throw new Error('a line without an end');
    yield lines;
  }
  if (rest !== '' || decoder.end() !== '') throw new Error('its last line has no end');
}
