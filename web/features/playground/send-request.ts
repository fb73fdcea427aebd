import { ApiError } from '../../lib/api/api.ts';
import { choicesOf } from '../../lib/api/chat-stream.ts';

export type Message = { role: 'system' | 'user' | 'assistant'; content: string };

export type Question = {
  /** A key id of the member's account; the server has its secret. */
  key: string;
  model: string;
  messages: readonly Message[];
  temperature: number | null;
  maxTokens: number | null;
};

type Listener = {
  /** The reply has started. */
  onRequest: (request: string | null) => void;
  onText: (text: string) => void;
};

/** The maximum length of one reply. */
const REPLY_CHARACTERS_MAX = 500_000;

/**
 * Sends a request like any client, with a key's id instead of its secret.
 * @returns the model's finish reason, or null.
 * @throws {ApiError} if the request is rejected or fails, also in the middle of a reply.
 * @throws {DOMException} if it was stopped.
 */
export async function sendRequest(
  { key, model, messages, temperature, maxTokens }: Question,
  { onRequest, onText }: Listener,
  signal: AbortSignal,
): Promise<string | null> {
  const body = {
    model,
    messages,
    stream: true,
    ...(temperature === null ? {} : { temperature }),
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
  };
  const response = await send(key, body, signal);
  const request = response.headers.get('x-request-id');
  onRequest(request);
  let characters = 0;
  let finish: string | null = null;
  for await (const { delta, finish_reason } of choicesOf(response)) {
    const text = delta?.content ?? delta?.refusal ?? '';
    finish = finish_reason ?? finish;
    if (text === '') continue;
    characters += text.length;
    if (characters > REPLY_CHARACTERS_MAX)
      throw new ApiError('The reply exceeded the maximum length of this page and was stopped.', {
        status: response.status,
        code: 'too_long',
        requestId: request,
      });
    onText(text);
  }
  return finish;
}

async function send(key: string, body: object, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch('/api/v1/playground/chat/completions', {
      method: 'POST',
      credentials: 'same-origin',
      headers: { 'content-type': 'application/json', 'x-daybook-key': key },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError('The server is not responding. Check your connection and try again.', {
      status: 0,
      code: 'no_reply',
    });
  }
}
