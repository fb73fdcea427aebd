import { failureOf, noReply } from './api.ts';

/** One line of ours; the longest is a page of findings. */
const LINE_CHARACTERS_MAX = 1_000_000;

/**
 * The objects of a reply that comes line by line, as they come.
 * @throws {ApiError} when it was refused, or broke off in the middle of a line.
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
    // Whoever stops reading wants no more of it.
    await reader.cancel().catch(() => {});
  }
}
