import { ApiError } from '#server/errors/api-error.ts';
import {
  type CallOptions,
  type Effort,
  EFFORTS,
  type FunctionTool,
  type Specification,
} from '#server/providers/bridge/language-model.ts';
import { promptOf } from '#server/providers/bridge/prompt.ts';
import { listAt, numberAt, objectAt, textAt, UnsupportedField } from '#server/providers/bridge/fields.ts';
import type { ProviderCall, ProviderRequest } from '#server/providers/provider.ts';

/** What a model is asked, and the members of the request that it can't be asked, by their names. */
export type ModelCall = { options: CallOptions; unsupported: string[] };

export type ChatRequest = Record<string, unknown>;

/** Members that are said to a model, or are the relay's own. */
const SAID = new Set([
  'model',
  'messages',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'temperature',
  'top_p',
  'top_k',
  'stop',
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'response_format',
  'tools',
  'tool_choice',
  'reasoning_effort',
]);

/** Values that ask for what happens anyway: nothing is lost with them. */
const SAYS_NOTHING: ChatRequest = {
  n: 1,
  logprobs: false,
  top_logprobs: 0,
  parallel_tool_calls: true,
  store: false,
  service_tier: 'auto',
};

/**
 * A chat-completions request as the options of a language model's call. Pure.
 *
 * A client can't send options of the provider's own: packages put them into their request as they are,
 * and with some a client could choose another model, or no limit, behind the relay's back.
 *
 * @param tokenLimit on the reply, in tokens; null: none.
 * @throws {UnsupportedField} where leaving something out would make the reply a wrong one.
 */
export function callOptionsOf(
  request: ChatRequest,
  tokenLimit: number | null,
  specification: Specification,
): ModelCall {
  for (const name of ['functions', 'function_call']) {
    if (isSaid(request[name]))
      throw new UnsupportedField(
        name,
        `The field "${name}" is not known to this upstream. Use "tools" instead.`,
      );
  }
  const unsupported = Object.keys(request).filter(
    (name) => !SAID.has(name) && isSaid(request[name]) && request[name] !== SAYS_NOTHING[name],
  );
  const effort = effortOf(request['reasoning_effort']);
  if (effort !== undefined && specification === 'v3') unsupported.push('reasoning_effort');
  const tools = toolsOf(request['tools']);
  const options = withoutNothing<CallOptions>({
    prompt: promptOf(request['messages'], specification),
    maxOutputTokens: tokenLimit ?? undefined,
    temperature: numberAt(request['temperature'], 'temperature'),
    topP: numberAt(request['top_p'], 'top_p'),
    topK: numberAt(request['top_k'], 'top_k'),
    presencePenalty: numberAt(request['presence_penalty'], 'presence_penalty'),
    frequencyPenalty: numberAt(request['frequency_penalty'], 'frequency_penalty'),
    seed: numberAt(request['seed'], 'seed'),
    stopSequences: stopsOf(request['stop']),
    responseFormat: formatOf(request['response_format']),
    tools: tools.length > 0 ? tools : undefined,
    toolChoice: tools.length > 0 ? choiceOf(request['tool_choice']) : undefined,
    reasoning: specification === 'v4' ? effort : undefined,
  });
  return { options, unsupported };
}

/** The client's request. The memory of the body may be used again when the caller is done with it. */
export function requestOf({ body }: ProviderCall): ChatRequest {
  return JSON.parse(body.bytes.toString()) as ChatRequest;
}

const NO_BYTES = Buffer.alloc(0);

/**
 * The `request` of the port. The package itself builds the request to its provider, so this only finds
 * unsupported fields, and rejects a call that another upstream may be able to carry out.
 */
export function bridgeRequest(call: ProviderCall): ProviderRequest | ApiError {
  try {
    const { unsupported } = callOptionsOf(requestOf(call), null, 'v4');
    return { path: '', body: NO_BYTES, headers: [], unsupported };
  } catch (error) {
    if (error instanceof UnsupportedField)
      return new ApiError('invalid_value', { message: error.message, param: error.param });
    throw error;
  }
}

function isSaid(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Packages take a member that is there for one that was asked for. */
function withoutNothing<T extends object>(options: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}

function stopsOf(stop: unknown): string[] | undefined {
  if (!isSaid(stop)) return undefined;
  const stops =
    typeof stop === 'string'
      ? [stop]
      : listAt(stop, 'stop').map((each, index) => textAt(each, `stop[${index}]`));
  return stops.length > 0 ? stops : undefined;
}

function effortOf(effort: unknown): Effort | undefined {
  if (!isSaid(effort)) return undefined;
  if (!(EFFORTS as readonly unknown[]).includes(effort))
    throw new UnsupportedField(
      'reasoning_effort',
      `The field "reasoning_effort" must be one of ${EFFORTS.join(', ')}.`,
    );
  return effort as Effort;
}

function formatOf(format: unknown): CallOptions['responseFormat'] {
  if (!isSaid(format)) return undefined;
  const { type, json_schema: described } = objectAt(format, 'response_format');
  if (type === 'text') return { type: 'text' };
  if (type === 'json_object') return { type: 'json' };
  if (type !== 'json_schema')
    throw new UnsupportedField(
      'response_format.type',
      'The field "response_format.type" must be text, json_object or json_schema.',
    );
  const { name, description, schema } = objectAt(described, 'response_format.json_schema');
  return {
    type: 'json',
    ...(isSaid(schema) ? { schema: objectAt(schema, 'response_format.json_schema.schema') } : {}),
    ...(typeof name === 'string' ? { name } : {}),
    ...(typeof description === 'string' ? { description } : {}),
  };
}

function toolsOf(tools: unknown): FunctionTool[] {
  return listAt(tools, 'tools').map((each, index) => {
    const param = `tools[${index}]`;
    const tool = objectAt(each, param);
    if (tool['type'] !== 'function')
      throw new UnsupportedField(
        `${param}.type`,
        'Only tools of the type "function" can be used with this upstream.',
      );
    const { name, description, parameters, strict } = objectAt(tool['function'], `${param}.function`);
    return {
      type: 'function',
      name: textAt(name, `${param}.function.name`),
      inputSchema: isSaid(parameters)
        ? objectAt(parameters, `${param}.function.parameters`)
        : { type: 'object', properties: {} },
      ...(typeof description === 'string' ? { description } : {}),
      ...(typeof strict === 'boolean' ? { strict } : {}),
    };
  });
}

function choiceOf(choice: unknown): CallOptions['toolChoice'] {
  if (!isSaid(choice)) return undefined;
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { type: choice };
  const { type, function: chosen } = objectAt(choice, 'tool_choice');
  if (type !== 'function')
    throw new UnsupportedField(
      'tool_choice',
      'The field "tool_choice" must be auto, none, required or one function.',
    );
  return {
    type: 'tool',
    toolName: textAt(objectAt(chosen, 'tool_choice.function')['name'], 'tool_choice.function.name'),
  };
}
