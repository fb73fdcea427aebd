import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Dispatcher } from 'undici';
import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import { type Bridge, openBridge } from '#server/providers/bridge/bridge.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { type ChatBody, readChatBody } from '../wire/chat-body.ts';

/** What the handler of a call was reported. */
export type Told = {
  status: number | null;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  chat: ChatBody;
  /** What the relay's own reader of the convention makes of it. */
  tap: ChatSse;
  error: Error | null;
  /** `end`, `error`, or whatever else came after one of them, which must not be. */
  endings: string[];
};

export type Calling = {
  controller: Dispatcher.DispatchController;
  /** Bytes that were informed far. */
  bytes(): number;
  /** Resolves with the next data. */
  data(): Promise<void>;
  reported: Promise<Told>;
};

export function callOf(request: object, tokenLimit: number | null = null): ProviderCall {
  const bytes = Buffer.from(
    JSON.stringify({
      model: 'm',
      messages: [{ role: 'user', content: 'When does the tide turn?' }],
      ...request,
    }),
  );
  const asked = parseChatCompletion(bytes);
  if (asked instanceof ApiError) throw new Error(asked.message);
  return {
    route: CHAT_COMPLETIONS,
    body: { bytes, slab: null },
    parsed: asked,
    model: asked.model,
    tokenLimit,
    tokenLimitMember: 'max_completion_tokens',
    redactor: NOTHING_TO_REDACT,
  };
}

/** What is done within the handler's own calls. */
export type Within = {
  head?: (controller: Dispatcher.DispatchController) => void;
  data?: (controller: Dispatcher.DispatchController) => void;
};

/** Sends a call over a bridge, and gathers what its handler is reported. */
export function startCall(
  bridge: Pick<Bridge, 'send'>,
  request: object,
  tokenLimit: number | null = null,
  within: Within = {},
): Calling {
  const chunks: Buffer[] = [];
  const endings: string[] = [];
  const { promise, resolve } = Promise.withResolvers<Told>();
  let controller: Dispatcher.DispatchController | null = null;
  let status: number | null = null;
  let headers: Told['headers'] = {};
  let gotData = (): void => {};
  const end = (ending: string, error: Error | null): void => {
    endings.push(ending);
    // A moment for whatever should not come any more.
    setImmediate(() => {
      const body = Buffer.concat(chunks);
      const tap = new ChatSse(false);
      tap.push(body);
      tap.flush();
      const reader = readChatBody(() => undefined);
      reader.begin(typeof headers['content-type'] === 'string' ? headers['content-type'] : null);
      reader.push(body);
      resolve({ status, headers, text: body.toString(), chat: reader.end(body), tap, error, endings });
    });
  };
  bridge.send(callOf(request, tokenLimit), {
    onRequestStart: (given) => void (controller = given),
    onResponseStart(begun, given, givenHeaders) {
      if (status !== null || endings.length > 0) endings.push('head');
      status = given;
      headers = givenHeaders;
      within.head?.(begun);
    },
    onResponseData(given, chunk) {
      if (endings.length > 0 || given.paused) endings.push('data');
      chunks.push(chunk);
      gotData();
      within.data?.(given);
    },
    onResponseEnd: () => end('end', null),
    onResponseError: (_controller, error) => end('error', error),
  });
  if (!controller) throw new Error('the call was not begun');
  return {
    controller,
    bytes: () => chunks.reduce((sum, chunk) => sum + chunk.length, 0),
    data: () => new Promise((got) => void (gotData = got)),
    reported: promise,
  };
}

export function bridged(
  bridge: Pick<Bridge, 'send'>,
  request: object,
  tokenLimit: number | null = null,
): Promise<Told> {
  return startCall(bridge, request, tokenLimit).reported;
}

/** The tool calls of a streamed or complete reply, put together as clients do it. */
export function toolCallsOf({ events, json }: ChatBody): unknown[] {
  type Call = {
    index?: number;
    id?: string;
    function?: { name?: string; arguments?: string };
    extra_content?: object;
  };
  type Choice = { choices?: { delta?: { tool_calls?: Call[] }; message?: { tool_calls?: Call[] } }[] };
  const calls: { id?: string; name?: string; arguments: string; extra?: object }[] = [];
  for (const each of [...(events as Choice[]), json as Choice | undefined]) {
    for (const call of each?.choices?.[0]?.delta?.tool_calls ??
      each?.choices?.[0]?.message?.tool_calls ??
      []) {
      const at = call.index ?? calls.length;
      const known = (calls[at] ??= { arguments: '' });
      if (call.id !== undefined) known.id = call.id;
      if (call.function?.name !== undefined) known.name = call.function.name;
      known.arguments += call.function?.arguments ?? '';
      if (call.extra_content) known.extra = call.extra_content;
    }
  }
  return calls;
}

export function fixtureText(name: string): string {
  return readFileSync(path.join(import.meta.dirname, '../../fixtures/bridge', name), 'utf8');
}

/** A bridge by each of the packages to one scripted provider. */
export function bridgesTo({ url }: { url: string }, secret: string): Record<string, Bridge> {
  const names = ['google', 'cohere', 'anthropic'];
  return Object.fromEntries(
    names.map((name) => [
      name,
      openBridge({ terms: { package: `@ai-sdk/${name}`, base_url: url }, secret, fetch }),
    ]),
  );
}
