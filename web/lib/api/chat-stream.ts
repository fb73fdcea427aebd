import { failureOf } from './api.ts';
import { readEvents } from './sse.ts';

type Choice = { delta?: { content?: string | null; refusal?: string | null }; finish_reason?: string | null };
type Chunk = { choices?: Choice[]; error?: object };

/**
 * The choices of a streamed chat completion.
 * @throws {ApiError} if the request is rejected or fails, also in the middle of the reply.
 */
export async function* choicesOf(response: Response): AsyncGenerator<Choice> {
  if (!response.ok || !response.body) throw failureOf(response, await response.json().catch(() => null));
  for await (const data of readEvents(response.body)) {
    if (data === '[DONE]') continue;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw failureOf(response, chunk);
    const [choice] = chunk.choices ?? [];
    if (choice) yield choice;
  }
}
