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
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > LINE_CHARACTERS_MAX) throw noReply('GET');
      for (const line of lines) yield JSON.parse(line) as T;
    }
    if (rest !== '') throw noReply('GET');
  } finally {
    // Cancels the response when the consumer stops.
    await reader.cancel().catch(() => {});
  }
}
