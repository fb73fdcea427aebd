/** A call of the relay as any client makes one: with the secret, and without the session of this page. */

export type Sent = { endpoint: string; secret: string; model: string; prompt: string; signal: AbortSignal };
export type Reply = { requestId: string | null; /** From sending to the first word; null: there was none. */ firstWordMs: number | null };

/** Why a call failed, as the relay told it. */
export class CallError extends Error {
  override name = 'CallError';
  /** 0: no reply came. */
  readonly status: number;
  readonly code: string | null;
  readonly requestId: string | null;

  constructor(message: string, status: number, code: string | null, requestId: string | null) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }
}

type ErrorBody = { error?: { message?: string; code?: string | null } };
type Chunk = ErrorBody & { choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[] };

/**
 * Makes the call and tells of each word as it comes.
 * @throws {CallError} whatever went wrong, a reply that was cut included.
 */
export async function sendTestCall({ endpoint, secret, model, prompt, signal }: Sent, onWord: (word: string) => void): Promise<Reply> {
  const startedMs = performance.now();
  const response = await fetch(endpoint, {
    method: 'POST',
    credentials: 'omit',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: prompt }] }),
    signal,
  }).catch((error: unknown) => {
    throw signal.aborted ? error : new CallError('No reply came.', 0, null, null);
  });
  const requestId = response.headers.get('x-request-id');
  if (!response.ok || !response.body) {
    const { error } = ((await response.json().catch(() => null)) ?? {}) as ErrorBody;
    throw new CallError(error?.message ?? `The relay replied with status ${response.status}.`, response.status, error?.code ?? null, requestId);
  }
  let firstWordMs: number | null = null;
  let isComplete = false;
  for await (const { error, choices } of chunksOf(response.body)) {
    if (error) throw new CallError(error.message ?? 'The reply broke off.', response.status, error.code ?? null, requestId);
    const word = choices?.[0]?.delta?.content ?? '';
    if (choices?.[0]?.finish_reason != null) isComplete = true;
    if (word === '') continue;
    firstWordMs ??= performance.now() - startedMs;
    onWord(word);
  }
  if (!isComplete) throw new CallError('The reply ended before it was complete.', response.status, null, requestId);
  return { requestId, firstWordMs };
}

/** The chunks of a streamed reply. */
async function* chunksOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Chunk> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? '')).split(/\r?\n/);
    rest = done ? '' : (lines.pop() ?? '');
    for (const line of lines) if (line.startsWith('data: {')) yield JSON.parse(line.slice('data: '.length)) as Chunk;
    if (done) return;
  }
}
