import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ApiError } from '#server/errors/api-error.ts';
import { messagesRequest } from '#server/providers/anthropic/request.ts';
import { MessageSse } from '#server/providers/anthropic/sse.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';
import type { SseReader } from '#server/wire/sse.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';
import { type ChatBody, readChatBody } from '../wire/chat-body.ts';
import { requestText } from './request-text.ts';

export const FOLDER = path.join(import.meta.dirname, '../../fixtures/anthropic');
export const CREATED = 1_790_000_000;

export function fixture(name: string): Buffer {
  return readFileSync(path.join(FOLDER, name));
}

/** A call of this body, as the relay hands it to a provider. A string is the body as it stands. */
export function callOf(body: object | string, more: Partial<ProviderCall> = {}): ProviderCall {
  const bytes = Buffer.from(
    typeof body === 'string'
      ? body
      : JSON.stringify({ model: 'tide', messages: [{ role: 'user', content: 'Hi' }], ...body }),
  );
  const asked = parseChatCompletion(bytes);
  if (asked instanceof ApiError) throw new Error(asked.message);
  return {
    route: '/v1/chat/completions',
    body: { bytes, slab: null },
    parsed: asked,
    model: 'claude-sonnet-5',
    tokenLimit: null,
    tokenLimitMember: 'max_tokens',
    redactor: NOTHING_TO_REDACT,
    ...more,
  };
}

export type Sent = Record<string, unknown> & {
  messages: { role: string; content: Record<string, unknown>[] }[];
};

/** What goes out for a call: its text, the same parsed, and everything that had no place in it. */
export function sent(
  body: object | string,
  more: Partial<ProviderCall> = {},
): { text: string; json: Sent; unsupported: readonly string[] } {
  const request = messagesRequest(callOf(body, more));
  if (request instanceof ApiError) throw new Error(`${request.param}: ${request.message}`);
  const text = requestText(request);
  return { text, json: JSON.parse(text) as Sent, unsupported: request.unsupported };
}

/** The field that a call is refused for. */
export function refusedFor(body: object): string | null {
  const request = messagesRequest(callOf(body));
  if (!(request instanceof ApiError)) throw new Error('the call was not refused');
  if (request.status !== 400) throw new Error(`it was refused with ${request.status}`);
  return request.param;
}

/** Sends all chunks through and ends; what came out, whole. */
export function runThrough(reader: SseReader, chunks: readonly Buffer[]): Buffer {
  const out = chunks.map((each) => reader.push(each));
  out.push(reader.flush());
  return Buffer.concat(out.filter((each) => each !== null));
}

/** What a chat client makes of the translation of these bytes, and what the relay is informed of it. */
export function translated(
  bytes: Buffer,
  includeUsage = true,
): { client: ChatBody; reader: MessageSse; output: string } {
  const reader = new MessageSse(CREATED, includeUsage);
  const output = runThrough(reader, [bytes]);
  const body = readChatBody(() => undefined);
  body.begin('text/event-stream');
  body.push(output);
  return { client: body.end(output), reader, output: output.toString() };
}

type Call = { index: number; id?: string; function: { name?: string; arguments: string } };
type Chunk = { choices?: { delta: { tool_calls?: Call[]; reasoning_details?: unknown[] } }[] };

/**
 * The tool calls of a streamed reply, put together as every client does: by index, names and ids from the
 * first fragment.
 */
export function toolCalls(
  events: readonly unknown[],
): { id: string; type: 'function'; function: { name: string; arguments: string } }[] {
  const calls: { id: string; type: 'function'; function: { name: string; arguments: string } }[] = [];
  for (const {
    index,
    id,
    function: { name, arguments: text },
  } of deltas(events).flatMap(({ tool_calls: fragments = [] }) => fragments)) {
    const call = calls[index];
    if (!call)
      calls[index] = { id: id ?? '', type: 'function', function: { name: name ?? '', arguments: text } };
    else call.function.arguments += text;
    if (call && (id !== undefined || name !== undefined))
      throw new Error('a later fragment names the call again');
  }
  return calls;
}

export function reasoningDetails(events: readonly unknown[]): unknown[] {
  return deltas(events).flatMap(({ reasoning_details: details = [] }) => details);
}

function deltas(events: readonly unknown[]): { tool_calls?: Call[]; reasoning_details?: unknown[] }[] {
  return events.flatMap((event) => ((event as Chunk).choices ?? []).map(({ delta }) => delta));
}
