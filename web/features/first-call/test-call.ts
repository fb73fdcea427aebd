import { ApiError } from '../../lib/api/api.ts';
import { choicesOf } from '../../lib/api/chat-stream.ts';

/** A request as an API client sends it: with the secret and without the session cookie. */

export type Sent = { endpoint: string; secret: string; model: string; prompt: string; signal: AbortSignal };
export type Reply = {
  requestId: string | null;
  /** Time from sending to the first word; null if there was none. */ firstWordMs: number | null;
};

/**
 * Sends the request and reports each word as it is received.
 * @throws {ApiError} for any failure, including an incomplete reply.
 */
export async function sendTestCall(
  { endpoint, secret, model, prompt, signal }: Sent,
  onWord: (word: string) => void,
): Promise<Reply> {
  const startedMs = performance.now();
  const response = await fetch(endpoint, {
    method: 'POST',
    credentials: 'omit',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: prompt }] }),
    signal,
  }).catch((error: unknown) => {
    throw signal.aborted
      ? error
      : new ApiError('No response from the relay.', { status: 0, code: 'no_reply' });
  });
  const requestId = response.headers.get('x-request-id');
  let firstWordMs: number | null = null;
  let isComplete = false;
  for await (const { delta, finish_reason } of choicesOf(response)) {
    const word = delta?.content ?? '';
    if (finish_reason != null) isComplete = true;
    if (word === '') continue;
    firstWordMs ??= performance.now() - startedMs;
    onWord(word);
  }
  if (!isComplete)
    throw new ApiError('The reply is incomplete.', {
      status: response.status,
      code: 'incomplete',
      requestId,
    });
  return { requestId, firstWordMs };
}
