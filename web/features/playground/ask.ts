import { ApiError } from '../../lib/api.ts';
import { choicesOf } from '../../lib/chat-stream.ts';

export type Message = { role: 'system' | 'user' | 'assistant'; content: string };

export type Question = {
  /** The id of a key of the own account; the server knows its secret. */
  key: string;
  model: string;
  messages: readonly Message[];
  temperature: number | null;
  maxTokens: number | null;
};

type Listener = {
  /** The reply begins; its id is known. */
  onRequest: (request: string | null) => void;
  onText: (text: string) => void;
};

/** What the page keeps of one reply. */
const REPLY_CHARACTERS_MAX = 500_000;

/**
 * Makes a call as any program would, with a key's id in place of its secret.
 * @returns why the reply ended, as the model says; null: it did not say.
 * @throws {ApiError} when it is refused or fails, also in the middle of a reply.
 * @throws {DOMException} when it was stopped.
 */
export async function ask(
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
      throw new ApiError('The reply is longer than this page keeps, so it was stopped.', {
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
    return await fetch('/api/playground/chat/completions', {
      method: 'POST',
      credentials: 'same-origin',
      headers: { 'content-type': 'application/json', 'x-daybook-key': key },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError('The server does not answer. Check your connection and try again.', {
      status: 0,
      code: 'no_reply',
    });
  }
}
