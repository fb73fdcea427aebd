import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import { http } from '#db/node-http.ts';
import type { UpstreamConfig } from '#server/process/config.ts';
import { DEMO_MODELS } from '#server/upstreams/demo-models.ts';

/**
 * A provider that needs no credential, so that the first call works before another is configured. It uses
 * OpenAI's format over a real socket on the loopback address, and echoes the last message.
 */
const WORD_PAUSE_MS = 40;
const ECHO_CHARACTERS_MAX = 2_000;

/** Its configuration, as an upstream of the environment. */
export const demoConfig = (baseUrl: string, credential: string): UpstreamConfig => ({
  name: 'demo',
  base_url: baseUrl,
  api_key: credential,
  models: DEMO_MODELS,
  provider: 'openai',
  routes: [CHAT_COMPLETIONS],
  token_limit: 'max_tokens',
  network: 'private',
  on_client_disconnect: 'cancel',
  retries: 0,
});

export type DemoUpstream = { config: UpstreamConfig; close(): Promise<void> };

export async function startDemoUpstream(): Promise<DemoUpstream> {
  const credential = randomBytes(24).toString('base64url');
  const server = http.createServer((request, response) => {
    answer(request, response, credential).catch(() => response.destroy());
  });
  // A port of its own even among processes that share the relay's: each knows only its own credential.
  await new Promise<void>((resolve) =>
    server.listen({ port: 0, host: '127.0.0.1', exclusive: true }, resolve),
  );
  const { port } = server.address() as AddressInfo;
  return {
    config: demoConfig(`http://127.0.0.1:${port}/v1`, credential),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

type ChatBody = {
  model: string;
  messages: { role?: unknown; content?: unknown }[];
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  max_tokens?: number;
  max_completion_tokens?: number;
};

async function answer(request: IncomingMessage, response: ServerResponse, credential: string): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  if (request.headers.authorization !== `Bearer ${credential}`)
    return sendError(response, 401, 'Invalid credential.');
  const body = JSON.parse(Buffer.concat(parts).toString()) as ChatBody;
  if (body.model === 'daybook-demo-fail') return sendError(response, 500, 'The demo model fails on demand.');

  const prompt = lastText(body);
  const all = `You said: ${prompt}`.slice(0, ECHO_CHARACTERS_MAX).split(/(?<=\s)/);
  const words = all.slice(0, body.max_completion_tokens ?? body.max_tokens ?? all.length);
  const finish = words.length < all.length ? 'length' : 'stop';
  const head = {
    id: `chatcmpl-demo-${Date.now().toString(36)}`,
    created: Math.floor(Date.now() / 1000),
    model: body.model,
  };
  const promptTokens = Math.ceil(prompt.length / 4);
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: words.length,
    total_tokens: promptTokens + words.length,
  };
  const cut = body.model === 'daybook-demo-cut';

  if (body.stream !== true) {
    const message = { role: 'assistant', content: words.join('') };
    const reply = {
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: finish }],
      usage,
    };
    const text = JSON.stringify(reply);
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    if (!cut) return void response.end(text);
    response.write(text.slice(0, text.length / 2), () => response.destroy());
    return;
  }

  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  const send = (choices: object[], more: object = {}): void => {
    response.write(
      `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`,
    );
  };
  send([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }]);
  for (const [index, word] of words.entries()) {
    await sleep(WORD_PAUSE_MS);
    if (response.destroyed) return;
    if (cut && index >= words.length / 2) return void response.destroy();
    send([{ index: 0, delta: { content: word }, finish_reason: null }]);
  }
  send([{ index: 0, delta: {}, finish_reason: finish }]);
  if (body.stream_options?.include_usage === true) send([], { usage });
  response.end('data: [DONE]\n\n');
}

function lastText(body: ChatBody): string {
  const content = body.messages.at(-1)?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part: { text?: unknown }) => (typeof part.text === 'string' ? part.text : ''))
    .join(' ');
}

function sendError(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error: { message, type: 'server_error', param: null, code: null } }));
}
