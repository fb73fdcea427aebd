import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A provider whose model works as a coding agent wants it to: offered a shell it runs one command in it,
 * and when it is reported the result it answers. It uses chat completions, responses, messages and Gemini's
 * API, streamed or not, and keeps its value asked.
 */
export type AgentModel = AsyncDisposable & {
  baseUrl: string;
  asked: {
    path: string;
    tool: string | null;
    result: string | null;
    headers: NodeJS.Dict<string | string[]>;
  }[];
};

/** What it runs, and what it answers then. */
export const COMMAND = 'printf noon > tide.txt && echo written-by-the-tool';
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
type Say = { text: string } | { tool: string; json: string };

export async function startAgentModel(): Promise<AgentModel> {
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
      asked.push({ path, tool, result, headers: request.headers });
      const say: Say =
        result !== null
          ? { text: ANSWER }
          : tool === null
            ? { text: ASIDE }
            : { tool, json: JSON.stringify(SHELLS[tool]?.(COMMAND)) };
      return speak(response, body, say, asked.length);
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

/** What its tool has said, if it was called. */
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
  return results.length === 0 ? null : JSON.stringify(results.at(-1));
}

/** Below it, Gemini's API has its models. */
export const GEMINI = '/v1beta/models/';

type Speak = (response: ServerResponse, body: Request, say: Say, turn: number) => void;

const PROTOCOLS: Readonly<Record<string, Speak>> = {
  '/v1/chat/completions'(response, { stream, model }, say, turn) {
    const base = { id: `chatcmpl-${turn}`, created: 1_790_000_000, model };
    const calls =
      'tool' in say
        ? [
            {
              index: 0,
              id: `call_${turn}`,
              type: 'function',
              function: { name: say.tool, arguments: say.json },
            },
          ]
        : undefined;
    const said = {
      role: 'assistant',
      content: 'text' in say ? say.text : null,
      ...(calls ? { tool_calls: calls } : {}),
    };
    const finish_reason = calls ? 'tool_calls' : 'stop';
    const usage = {
      prompt_tokens: USAGE.input,
      completion_tokens: USAGE.output,
      total_tokens: USAGE.input + USAGE.output,
    };
    if (!stream)
      return sendJson(response, {
        ...base,
        object: 'chat.completion',
        choices: [{ index: 0, message: said, finish_reason }],
        usage,
      });
    const chunk = { ...base, object: 'chat.completion.chunk' };
    return sendEvents(
      response,
      [
        { ...chunk, choices: [{ index: 0, delta: said, finish_reason: null }] },
        { ...chunk, choices: [{ index: 0, delta: {}, finish_reason }] },
        { ...chunk, choices: [], usage },
      ],
      'data: [DONE]\n\n',
    );
  },

  '/v1/responses'(response, { stream, model }, say, turn) {
    const item =
      'tool' in say
        ? {
            type: 'function_call',
            id: `fc_${turn}`,
            call_id: `call_${turn}`,
            name: say.tool,
            arguments: say.json,
            status: 'completed',
          }
        : {
            type: 'message',
            id: `msg_${turn}`,
            role: 'assistant',
            status: 'completed',
            content: [{ type: 'output_text', text: say.text, annotations: [] }],
          };
    const usage = {
      input_tokens: USAGE.input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: USAGE.output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: USAGE.input + USAGE.output,
    };
    const whole = {
      id: `resp_${turn}`,
      object: 'response',
      created_at: 1_790_000_000,
      status: 'completed',
      model,
      error: null,
      incomplete_details: null,
      output: [item],
      parallel_tool_calls: true,
      tools: [],
      usage,
    };
    if (!stream) return sendJson(response, whole);
    const delta =
      'tool' in say
        ? {
            type: 'response.function_call_arguments.delta',
            item_id: item.id,
            output_index: 0,
            delta: say.json,
          }
        : {
            type: 'response.output_text.delta',
            item_id: item.id,
            output_index: 0,
            content_index: 0,
            delta: say.text,
          };
    const added =
      'tool' in say
        ? { ...item, arguments: '', status: 'in_progress' }
        : { ...item, content: [], status: 'in_progress' };
    const events: { type: string; [member: string]: unknown }[] = [
      { type: 'response.created', response: { ...whole, status: 'in_progress', output: [], usage: null } },
      { type: 'response.output_item.added', output_index: 0, item: added },
      delta,
      ...('tool' in say
        ? [
            {
              type: 'response.function_call_arguments.done',
              item_id: item.id,
              output_index: 0,
              name: say.tool,
              arguments: say.json,
            },
          ]
        : []),
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: whole },
    ];
    return sendEvents(
      response,
      events.map((event, index) => ({ ...event, sequence_number: index })),
    );
  },

  '/v1/messages'(response, { stream, model }, say, turn) {
    const base = { id: `msg_${turn}`, type: 'message', role: 'assistant', model, stop_sequence: null };
    const block =
      'tool' in say
        ? { type: 'tool_use', id: `toolu_${turn}`, name: say.tool, input: JSON.parse(say.json) as object }
        : { type: 'text', text: say.text };
    const stop_reason = 'tool' in say ? 'tool_use' : 'end_turn';
    const usage = { input_tokens: USAGE.input, output_tokens: USAGE.output };
    if (!stream) return sendJson(response, { ...base, content: [block], stop_reason, usage });
    return sendEvents(response, [
      {
        type: 'message_start',
        message: { ...base, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
      },
      {
        type: 'content_block_start',
        index: 0,
        content_block: 'tool' in say ? { ...block, input: {} } : { type: 'text', text: '' },
      },
      {
        type: 'content_block_delta',
        index: 0,
        delta:
          'tool' in say
            ? { type: 'input_json_delta', partial_json: say.json }
            : { type: 'text_delta', text: say.text },
      },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
      { type: 'message_stop' },
    ]);
  },

  [GEMINI](response, { stream }, say) {
    const part =
      'tool' in say
        ? { functionCall: { name: say.tool, args: JSON.parse(say.json) as object } }
        : { text: say.text };
    const reply = {
      candidates: [{ index: 0, content: { role: 'model', parts: [part] }, finishReason: 'STOP' }],
      usageMetadata: {
        promptTokenCount: USAGE.input,
        candidatesTokenCount: USAGE.output,
        totalTokenCount: USAGE.input + USAGE.output,
      },
    };
    return stream ? sendEvents(response, [reply]) : sendJson(response, reply);
  },
};

function sendJson(response: ServerResponse, value: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

function sendEvents(
  response: ServerResponse,
  events: readonly { type?: unknown; [member: string]: unknown }[],
  end = '',
): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of events)
    response.write(
      `${typeof event.type === 'string' ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`,
    );
  response.end(end);
}
