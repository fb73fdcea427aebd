import type { EventOf } from '#db/events/events.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import { openRequests, settledOf } from '../faults.ts';
import { startRelay, type TestRelay, type UpstreamEntry } from '../relay.ts';
import { type ScriptedUpstream, startUpstream } from '../upstream/upstream.ts';
import { dataOf } from '#server/wire/sse.ts';

/** Clients of each protocol, and upstreams that have one protocol each. */

/** One relay with an upstream of each protocol. The name of a model begins with that of a protocol. */
export type Matrix = AsyncDisposable & { relay: TestRelay; upstream: ScriptedUpstream };

/** @param postgres a cluster of its own is for runs outside the test suite. */
export async function startMatrix(
  env: Record<string, string> = {},
  postgres: 'database' | 'embedded' = 'database',
): Promise<Matrix> {
  const upstream = await startUpstream();
  const relay = await startRelay({ upstreams: matrixUpstreams(upstream), env, postgres });
  return {
    relay,
    upstream,
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]();
      await upstream.close();
    },
  };
}

/** An upstream of each protocol at a scripted one. */
export const matrixUpstreams = (upstream: ScriptedUpstream): UpstreamEntry[] =>
  PROTOCOLS.map((protocol) => ({
    ...addressOf(upstream, protocol),
    name: `only-${protocol}`,
    models: [`${protocol}-*`],
  }));

function addressOf(
  { url, baseUrl }: ScriptedUpstream,
  protocol: Protocol,
): Omit<UpstreamEntry, 'name' | 'models'> {
  switch (protocol) {
    case 'chat':
      return { baseUrl, routes: ['/v1/chat/completions'] };
    case 'responses':
      return { baseUrl, routes: ['/v1/responses'] };
    case 'messages':
      return { baseUrl, provider: 'anthropic' };
    case 'gemini':
      return { baseUrl: `${url}/v1beta`, provider: 'gemini' };
  }
}

const TEXT = 'When does the tide turn?';
const TOOL = { type: 'object', properties: {} };

/** The path and the body of a call in a protocol, with a tool. */
export function requestOf(
  protocol: Protocol,
  model: string,
  isStreamed: boolean,
): [path: string, body: object] {
  const stream = isStreamed ? { stream: true } : {};
  switch (protocol) {
    case 'chat': {
      const tools = [{ type: 'function', function: { name: 'tool_0', parameters: TOOL } }];
      const usage = isStreamed ? { stream_options: { include_usage: true } } : {};
      const messages = [{ role: 'user', content: TEXT }];
      return ['/v1/chat/completions', { model, messages, tools, ...stream, ...usage }];
    }
    case 'responses': {
      const tools = [{ type: 'function', name: 'tool_0', parameters: TOOL }];
      return ['/v1/responses', { model, input: TEXT, store: false, tools, ...stream }];
    }
    case 'messages': {
      const tools = [{ name: 'tool_0', input_schema: TOOL }];
      const messages = [{ role: 'user', content: TEXT }];
      return ['/v1/messages', { model, max_tokens: 1_000, messages, tools, ...stream }];
    }
    case 'gemini': {
      const method = isStreamed ? 'streamGenerateContent?alt=sse' : 'generateContent';
      const tools = [{ functionDeclarations: [{ name: 'tool_0', parametersJsonSchema: TOOL }] }];
      const contents = [{ role: 'user', parts: [{ text: TEXT }] }];
      return [`/v1beta/models/${model}:${method}`, { contents, tools }];
    }
  }
}

export type Replied = {
  status: number;
  headers: Headers;
  requestId: string | null;
  text: string;
  /** The code of the error, as the reply or within the stream; null: there is none. */
  code: string | null;
};

export async function callPair(
  { relay }: Matrix,
  client: Protocol,
  model: string,
  isStreamed: boolean,
): Promise<Replied> {
  const [path, body] = requestOf(client, model, isStreamed);
  const reply = await fetch(`http://127.0.0.1:${relay.port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${relay.key}` },
    body: JSON.stringify(body),
  });
  const text = await reply.text();
  const { status, headers } = reply;
  return { status, headers, requestId: headers.get('x-request-id'), text, code: codeIn(client, text) };
}

/** The code of an error in the words of a protocol's clients. @throws {Error} for several errors. */
function codeIn(protocol: Protocol, text: string): string | null {
  const found = text
    .split(/\r?\n\r?\n/)
    .map((event) => dataOf(event) ?? event)
    .flatMap((data) => errorsIn(protocol, data));
  if (found.length > 1) throw new Error(`${found.length} errors in one reply: ${text}`);
  return found[0] ?? null;
}

type Fault = {
  type?: string;
  code?: string | number | null;
  message?: string;
  details?: { reason: string }[];
};

function errorsIn(protocol: Protocol, data: string): string[] {
  let value: (Fault & { error?: Fault | null }) | null;
  try {
    value = JSON.parse(data) as typeof value;
  } catch {
    return [];
  }
  const error = value?.error ?? null;
  if (value?.type === 'error' && error === null) return [String(value.code)];
  if (error === null) return [];
  if (protocol === 'messages' && value?.type !== 'error')
    throw new Error(`not an error of Anthropic's: ${data}`);
  if (protocol === 'gemini') return [error.details?.[0]?.reason ?? String(error.code)];
  return [String(error.code ?? error.type)];
}

/** The settlement of a call, once nothing runs. */
export async function settlementOf(
  { relay }: Matrix,
  { requestId }: Replied,
): Promise<EventOf<'request.settled'>> {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const settled = settledOf(log, requestId);
  if (!settled) throw new Error(`nothing is settled for the request ${requestId}`);
  return settled;
}
