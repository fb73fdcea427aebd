/** The events of a streamed reply, as latin-1 text of its bytes. Pure. */

/** Two line ends in a row. A CR at the very end says nothing yet: a LF may follow it. */
const LINE_ENDS_WITH_CR = /(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n|$))/g;
const LINE_END = /\r\n|\n|\r/;
const DATA_LINE = /(?:^|[\r\n])data:/;

/** Where each complete event ends, blank line included. */
export function eventEnds(text: string): number[] {
  const ends: number[] = [];
  if (text.includes('\r')) {
    for (const match of text.matchAll(LINE_ENDS_WITH_CR)) ends.push(match.index + match[0].length);
    return ends;
  }
  for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n', at + 2)) ends.push(at + 2);
  return ends;
}

/** What an event's data lines hold; null where it has none, as comments do. */
export function dataOf(event: string): string | null {
  if (!DATA_LINE.test(event)) return null;
  return event
    .split(LINE_END)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(line[5] === ' ' ? 6 : 5))
    .join('\n');
}
