import { HELD_MARK, SENT_MARK } from './marks.ts';
import type { Model } from './models.ts';

/**
 * Replies are built once and stamped per use, so that the upstream spends its time on sockets. They
 * have the shape of OpenAI's: the fields and sizes that a relay has to carry.
 */
export type JsonReply = { kind: 'json'; delayMs: number; bytes: Buffer; heldAt: number };

export type SseReply = {
  kind: 'sse';
  delayMs: number;
  chunks: number;
  intervalMs: number;
  /** Status line, headers and the role chunk. */
  head: Buffer;
  heldAt: number;
  chunk: Buffer;
  sentAt: number;
  /** The finish chunk, `[DONE]` and the end of the body. */
  tail: Buffer;
  /** The same with the usage chunk, for a request that asked for it. */
  tailWithUsage: Buffer;
};

export type Reply = JsonReply | SseReply;

const PROMPT_TOKENS = 211;

/** Builds what the model answers. @throws when the model's sizes leave no room for its content. */
export function buildReply(name: string, model: Model): Reply {
  return model.kind === 'json' ? buildJson(name, model) : buildSse(name, model);
}

function buildJson(name: string, model: Extract<Model, { kind: 'json' }>): JsonReply {
  const withContent = (content: string): string =>
    JSON.stringify({
      id: 'chatcmpl-mock0000000000000000',
      object: 'chat.completion',
      created: 1_790_000_000,
      model: name,
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content, refusal: null, annotations: [] },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: usageOf(97),
      service_tier: 'default',
      system_fingerprint: 'fp_mock',
    });
  // In the content, which is left of a reply that a gateway rewrites.
  const body = withContent(HELD_MARK + filler(model.replyBytes - withContent(HELD_MARK).length));
  const bytes = Buffer.from(
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_mock\r\n' +
      `content-length: ${body.length}\r\n\r\n${body}`,
  );
  return { kind: 'json', delayMs: model.delayMs, bytes, heldAt: bytes.indexOf(HELD_MARK) + 1 };
}

function buildSse(name: string, model: Extract<Model, { kind: 'sse' }>): SseReply {
  const event = (choices: unknown[], more: Record<string, unknown> = {}): string => {
    const common = {
      id: 'chatcmpl-mock0000000000000000',
      object: 'chat.completion.chunk',
      created: 1_790_000_000,
      model: name,
    };
    return `data: ${JSON.stringify({ ...common, service_tier: 'default', choices, ...more })}\n\n`;
  };
  const content = (padding: string): string => event(delta({ content: SENT_MARK }), { obfuscation: padding });
  const role = event(delta({ role: 'assistant', content: '' }), { system_fingerprint: HELD_MARK });
  const headers =
    'content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nx-request-id: req_mock\r\n';
  const head = Buffer.from(`HTTP/1.1 200 OK\r\n${headers}transfer-encoding: chunked\r\n\r\n${framed(role)}`);
  const chunk = Buffer.from(framed(content(filler(model.chunkBytes - content('').length))));
  const finish = framed(event(delta({}, 'stop')));
  const usage = framed(event([], { usage: usageOf(Number.isFinite(model.chunks) ? model.chunks : 1) }));
  const end = `${framed('data: [DONE]\n\n')}0\r\n\r\n`;
  return {
    kind: 'sse',
    delayMs: model.delayMs,
    chunks: model.chunks,
    intervalMs: model.intervalMs,
    head,
    heldAt: head.indexOf(HELD_MARK) + 1,
    chunk,
    sentAt: chunk.indexOf(SENT_MARK) + 1,
    tail: Buffer.from(finish + end),
    tailWithUsage: Buffer.from(finish + usage + end),
  };
}

function delta(content: object, finish: string | null = null): unknown[] {
  return [{ index: 0, delta: content, logprobs: null, finish_reason: finish }];
}

function usageOf(completionTokens: number) {
  return {
    prompt_tokens: PROMPT_TOKENS,
    completion_tokens: completionTokens,
    total_tokens: PROMPT_TOKENS + completionTokens,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
}

function filler(length: number): string {
  if (length < 0) throw new Error('a mock model is smaller than its own JSON');
  return 'lorem ipsum dolor sit amet '.repeat(Math.ceil(length / 27)).slice(0, length);
}

/** One chunk of HTTP/1.1's chunked transfer coding. The text must be ASCII. */
function framed(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}
