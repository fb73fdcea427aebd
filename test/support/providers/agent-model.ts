import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A provider whose model works as a coding agent wants it to: offered a shell it runs two commands in it, in
 * parallel calls, and when it is reported their results it answers. It uses chat completions, responses,
 * messages and Gemini's API, streamed or not, and keeps its value asked.
 */
export type AgentModel = AsyncDisposable & {
  baseUrl: string;
  asked: {
    path: string;
    tool: string | null;
    /** The results of its calls, as JSON. */
    result: string | null;
    headers: NodeJS.Dict<string | string[]>;
    /** Whether the call was left before its reply had ended. */
    isLeft: boolean;
  }[];
};

/** What its first reply does: it ends in the middle, or never. */
export type AgentModelFault = 'cut' | 'hang';

/** What it runs, and what it answers then. */
export const COMMANDS = [
  'printf noon > tide.txt && echo written-by-the-tool',
  'echo written-by-the-second-call',
];
export const ANSWER = 'The tide turns at noon.';
const ASIDE = 'Tides';
const USAGE = { input: 1_200, output: 24 };

/** How agents call their shell, and how it wants its command. */
const SHELLS: Readonly<Record<string, (command: string) => object>> = {
  run_shell_command: (command) => ({ command, is_background: false, description: 'Writes the answer down' }),
  exec_command: (command) => ({ cmd: command }),
  shell_command: (command) => ({ command }),
  shell: (command) => ({ command: ['bash', '-c', command] }),
  Bash: (command) => ({ command, description: 'Writes the answer down' }),
  bash: (command) => ({ command, description: 'Writes the answer down' }),
};

/** A request of any of the protocols, as far as it is looked at. */
type Request = {
  stream?: boolean;
  model: string;
  tools?: {
    name?: string;
    function?: { name: string };
    functionDeclarations?: { name: string }[];
  }[];
  messages?: { role: string; content: unknown }[];
  input?: string | { type?: string; output?: unknown }[];
  contents?: { parts?: { functionResponse?: { response: unknown } }[] }[];
};
type Call = { id: string; tool: string; json: string };
/** A text, or parallel calls. */
type Say = { text: string; calls: [] } | { text: null; calls: Call[] };

export async function startAgentModel(fault: AgentModelFault | null = null): Promise<AgentModel> {
  let isFaulty = fault !== null;
  const asked: AgentModel['asked'] = [];
  const server = createServer((request, response) => {
    void request.toArray().then((parts: Buffer[]) => {
      const [url = ''] = (request.url ?? '').split('?', 1);
      const path = url.startsWith(GEMINI) ? GEMINI : url;
      const speak = PROTOCOLS[path];
      if (!speak || request.method !== 'POST')
        return response
          .writeHead(404, { 'content-type': 'application/json' })
          .end('{"error":{"message":"There is no such route."}}');
      const body = JSON.parse(Buffer.concat(parts).toString()) as Request;
      if (path === GEMINI) body.stream = url.endsWith(':streamGenerateContent');
      const names = (body.tools ?? []).flatMap(
        ({ functionDeclarations, ...tool }) =>
          functionDeclarations?.map(({ name }) => name) ?? tool.function?.name ?? tool.name ?? '',
      );
      const tool = names.find((name) => name in SHELLS) ?? null;
      const result = resultIn(body);
      const entry = { path, tool, result, headers: request.headers, isLeft: false };
      const turn = asked.push(entry);
      response.once('close', () => (entry.isLeft = !response.writableFinished));
      const commands = result === null && tool !== null ? COMMANDS : [];
      const calls = commands.map((command, index) => ({
        id: `call_${turn}_${index}`,
        tool: tool ?? '',
        json: JSON.stringify(SHELLS[tool ?? '']?.(command)),
      }));
      const text = result === null ? ASIDE : ANSWER;
      const say: Say = calls.length > 0 ? { text: null, calls } : { text, calls: [] };
      const reply = speak(body, say, turn);
      if (!isFaulty || tool === null) return send(response, reply, body.stream === true);
      isFaulty = fault === 'hang';
      return sendPart(response, reply, fault === 'cut');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** What its tools have said, if they were called. */
function resultIn({ messages = [], input, contents = [] }: Request): string | null {
  const results = [
    ...messages.filter(({ role }) => role === 'tool').map(({ content }) => content),
    ...messages
      .flatMap(({ content }) => (Array.isArray(content) ? content : []))
      .filter((block: { type?: string }) => block.type === 'tool_result'),
    ...(Array.isArray(input) ? input : [])
      .filter(({ type }) => type?.endsWith('_call_output'))
      .map(({ output }) => output),
    ...contents
      .flatMap(({ parts = [] }) => parts)
      .flatMap(({ functionResponse }) => functionResponse?.response ?? []),
  ];
  return results.length === 0 ? null : JSON.stringify(results);
}

/** Below it, Gemini's API has its models. */
export const GEMINI = '/v1beta/models/';

/** A reply: whole, or as the events of a stream with what stands behind them. */
type Reply = {
  whole: object;
  events: readonly { type?: unknown; [member: string]: unknown }[];
  end?: string;
};
type Speak = (body: Request, say: Say, turn: number) => Reply;

const PROTOCOLS: Readonly<Record<string, Speak>> = {
  '/v1/chat/completions'({ model }, { text, calls }, turn) {
    const base = { id: `chatcmpl-${turn}`, created: 1_790_000_000, model };
    const tool_calls = calls.map(({ id, tool, json }, index) => ({
      index,
      id,
      type: 'function',
      function: { name: tool, arguments: json },
    }));
    const said = { role: 'assistant', content: text, ...(calls.length > 0 ? { tool_calls } : {}) };
    const finish_reason = calls.length > 0 ? 'tool_calls' : 'stop';
    const usage = {
      prompt_tokens: USAGE.input,
      completion_tokens: USAGE.output,
      total_tokens: USAGE.input + USAGE.output,
    };
    const chunk = { ...base, object: 'chat.completion.chunk' };
    return {
      whole: {
        ...base,
        object: 'chat.completion',
        choices: [{ index: 0, message: said, finish_reason }],
        usage,
      },
      events: [
        { ...chunk, choices: [{ index: 0, delta: said, finish_reason: null }] },
        { ...chunk, choices: [{ index: 0, delta: {}, finish_reason }] },
        { ...chunk, choices: [], usage },
      ],
      end: 'data: [DONE]\n\n',
    };
  },

  '/v1/responses'({ model }, { text, calls }, turn) {
    const message = {
      type: 'message',
      id: `msg_${turn}`,
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: text ?? '', annotations: [] }],
    };
    const items = calls.map(({ id, tool, json }) => ({
      type: 'function_call',
      id: id.replace('call', 'fc'),
      call_id: id,
      name: tool,
      arguments: json,
      status: 'completed',
    }));
    const usage = {
      input_tokens: USAGE.input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: USAGE.output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: USAGE.input + USAGE.output,
    };
    const output = text === null ? items : [message];
    const whole = {
      id: `resp_${turn}`,
      object: 'response',
      created_at: 1_790_000_000,
      status: 'completed',
      model,
      error: null,
      incomplete_details: null,
      output,
      parallel_tool_calls: true,
      tools: [],
      usage,
    };
    const events = [
      { type: 'response.created', response: { ...whole, status: 'in_progress', output: [], usage: null } },
      ...(text === null ? items.flatMap(callEvents) : textEvents(message, text)),
      { type: 'response.completed', response: whole },
    ];
    return { whole, events: events.map((event, index) => ({ ...event, sequence_number: index })) };
  },

  '/v1/messages'({ model }, { text, calls }, turn) {
    const base = { id: `msg_${turn}`, type: 'message', role: 'assistant', model, stop_sequence: null };
    const content =
      text === null
        ? calls.map(({ id, tool, json }) => ({
            type: 'tool_use',
            id: id.replace('call', 'toolu'),
            name: tool,
            input: JSON.parse(json) as object,
          }))
        : [{ type: 'text', text }];
    const stop_reason = text === null ? 'tool_use' : 'end_turn';
    const usage = { input_tokens: USAGE.input, output_tokens: USAGE.output };
    return {
      whole: { ...base, content, stop_reason, usage },
      events: [
        {
          type: 'message_start',
          message: { ...base, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
        },
        ...content.flatMap((block, index) => [
          {
            type: 'content_block_start',
            index,
            content_block: text === null ? { ...block, input: {} } : { type: 'text', text: '' },
          },
          {
            type: 'content_block_delta',
            index,
            delta:
              text === null
                ? { type: 'input_json_delta', partial_json: calls[index]?.json }
                : { type: 'text_delta', text },
          },
          { type: 'content_block_stop', index },
        ]),
        { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
        { type: 'message_stop' },
      ],
    };
  },

  [GEMINI](_, { text, calls }) {
    const parts =
      text === null
        ? calls.map(({ tool, json }) => ({ functionCall: { name: tool, args: JSON.parse(json) as object } }))
        : [{ text }];
    const usageMetadata = {
      promptTokenCount: USAGE.input,
      candidatesTokenCount: USAGE.output,
      totalTokenCount: USAGE.input + USAGE.output,
    };
    const responseOf = (some: readonly object[], ended: object): Record<string, unknown> => ({
      candidates: [{ index: 0, content: { role: 'model', parts: some }, ...ended }],
      usageMetadata,
    });
    const finished = { finishReason: 'STOP' };
    return {
      whole: responseOf(parts, finished),
      events: [...parts.map((part) => responseOf([part], {})), responseOf([], finished)],
    };
  },
};

function textEvents(message: { id: string; content: object[] }, text: string): { type: string }[] {
  const item = { ...message, content: [], status: 'in_progress' };
  const delta = { item_id: message.id, output_index: 0, content_index: 0, delta: text };
  return [
    { type: 'response.output_item.added', ...{ output_index: 0, item } },
    { type: 'response.output_text.delta', ...delta },
    { type: 'response.output_item.done', ...{ output_index: 0, item: message } },
  ];
}

function callEvents(
  call: { id: string; name: string; arguments: string },
  output_index: number,
): { type: string }[] {
  const { id: item_id, name, arguments: json } = call;
  const item = { ...call, arguments: '', status: 'in_progress' };
  return [
    { type: 'response.output_item.added', ...{ output_index, item } },
    { type: 'response.function_call_arguments.delta', ...{ item_id, output_index, delta: json } },
    { type: 'response.function_call_arguments.done', ...{ item_id, output_index, name, arguments: json } },
    { type: 'response.output_item.done', ...{ output_index, item: call } },
  ];
}

function send(response: ServerResponse, { whole, events, end = '' }: Reply, isStreamed: boolean): void {
  const type = isStreamed ? 'text/event-stream' : 'application/json';
  response.writeHead(200, { 'content-type': type });
  response.end(isStreamed ? events.map(eventText).join('') + end : JSON.stringify(whole));
}

/** The beginning of a stream, and then its end by a broken connection, or nothing. */
function sendPart(response: ServerResponse, { events }: Reply, isCut: boolean): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const begun = events.slice(0, 1).map(eventText).join('');
  response.write(begun, () => {
    if (isCut) response.destroy();
  });
}

const eventText = (event: { type?: unknown }): string =>
  `${typeof event.type === 'string' ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`;
