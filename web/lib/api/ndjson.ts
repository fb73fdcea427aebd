import { failureOf, noReply } from './api.ts';

/** The maximum length of one line. */
const LINE_CHARACTERS_MAX = 1_000_000;

/**
 * Streams the objects of an NDJSON response.
 * @throws {ApiError} for an error response or an incomplete line.
 */
export async function* readObjects<T>(response: Response): AsyncGenerator<T> {
  if (!response.ok || !response.body) throw failureOf(response, await response.json().catch(() => null));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  /** The parts of the line that is not complete: each character is searched once. */
  let parts: string[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const [first = '', ...more] = value.split('\n');
      parts.push(first);
      length += first.length;
      if (more.length > 0) {
        const rest = more.pop() as string;
        for (const line of [parts.join(''), ...more]) yield JSON.parse(line) as T;
        parts = [rest];
        length = rest.length;
      }
      if (length > LINE_CHARACTERS_MAX) throw noReply('GET');
    }
    if (length > 0) throw noReply('GET');
  } finally {
    // Cancels the response when the consumer stops.
    await reader.cancel().catch(() => {});
  }
}
