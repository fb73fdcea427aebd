import { readAssistant } from '#server/protocols/chat/read-assistant.ts';
import { readParts } from '#server/protocols/chat/read-content.ts';
import type {
  Conversation,
  ReportLoss,
  ResponseFormat,
  Tool,
  ToolChoice,
  ToolResult,
  Turn,
} from '#server/protocols/conversation.ts';
import {
  arrayAt,
  lossName,
  numberOrNull,
  recordAt,
  reportOthers,
  stringAt,
  stringOrNull,
  Untranslatable,
} from '#server/protocols/fields.ts';
import { asRecord } from '#server/wire/counts.ts';

/** Requests for chat completions as conversations. Pure. */

/** Members that are translated, or that the relay has already acted on. */
const TRANSLATED = new Set([
  'model',
  'messages',
  'max_tokens',
  'max_completion_tokens',
  'stream',
  'stream_options',
  'stop',
  'temperature',
  'top_p',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'reasoning',
]);
/** Values that ask for nothing; leaving them out changes nothing. */
const ASKS_NOTHING: Readonly<Record<string, string>> = {
  n: '1',
  logprobs: 'false',
  frequency_penalty: '0',
  presence_penalty: '0',
  logit_bias: '{}',
  store: 'false',
  service_tier: '"auto"',
  modalities: '["text"]',
  functions: '[]',
  function_call: '"none"',
};

/** @throws {Untranslatable} for a request that another protocol can't state without changing its meaning. */
export function readChatRequest(request: Record<string, unknown>, report: ReportLoss): Conversation {
  const asked = Object.fromEntries(
    Object.entries(request).filter(([name, value]) => ASKS_NOTHING[name] !== JSON.stringify(value)),
  );
  refuseWhatMatters(asked);
  reportOthers(asked, TRANSLATED, report);
  const tools = toolsOf(request['tools'], report);
  const effort = request['reasoning_effort'] ?? asRecord(request['reasoning'])?.['effort'];
  const stop = request['stop'] ?? [];
  return {
    turns: turnsOf(request['messages'], report),
    tools,
    toolChoice: tools.length === 0 ? null : choiceOf(request['tool_choice'] ?? null, report),
    parallelToolCalls: request['parallel_tool_calls'] === false ? false : null,
    reasoningEffort: stringOrNull(effort),
    temperature: numberOrNull(request['temperature']),
    topP: numberOrNull(request['top_p']),
    stop: arrayAt(typeof stop === 'string' ? [stop] : stop, 'stop').filter(
      (each): each is string => typeof each === 'string',
    ),
    format: formatOf(asRecord(request['response_format'])),
  };
}

/** Without these a reply would be of another kind than the client requested. */
function refuseWhatMatters(asked: Record<string, unknown>): void {
  const { functions, modalities, n } = asked;
  if (Array.isArray(functions)) throw new Untranslatable('functions', 'must be sent as "tools"');
  if (Array.isArray(modalities) && modalities.includes('audio'))
    throw new Untranslatable('modalities', "asks for audio, which this model's provider doesn't reply with");
  if ((n ?? 1) !== 1) throw new Untranslatable('n', "must be 1 for this model's provider");
}

function turnsOf(messages: unknown, report: ReportLoss): Turn[] {
  const turns: Turn[] = [];
  for (const [index, each] of arrayAt(messages, 'messages').entries()) {
    const at = `messages[${index}]`;
    const message = recordAt(each, at);
    if (typeof message['name'] === 'string' && message['role'] !== 'tool') report('messages.name');
    const turn = turnOf(message, at, report);
    const last = turns.at(-1);
    // Each result of a tool is a message of its own.
    if (turn?.role === 'tool' && last?.role === 'tool') last.results.push(...turn.results);
    else if (turn) turns.push(turn);
  }
  return turns;
}

function turnOf(message: Record<string, unknown>, at: string, report: ReportLoss): Turn | null {
  if (message['cache_control']) report('cache_control');
  switch (message['role']) {
    case 'system':
    case 'developer': {
      const parts = readParts(message['content'], `${at}.content`, report);
      return { role: 'system', parts: parts.filter((part) => part.type === 'text') };
    }
    case 'user':
      return { role: 'user', parts: readParts(message['content'], `${at}.content`, report) };
    case 'assistant': {
      const parts = readAssistant(message, at, report);
      return parts.length === 0 ? null : { role: 'assistant', parts };
    }
    case 'tool':
      return { role: 'tool', results: [resultOf(message, at, report)] };
    default:
      throw new Untranslatable(`${at}.role`, 'must be "system", "developer", "user", "assistant" or "tool"');
  }
}

function resultOf(message: Record<string, unknown>, at: string, report: ReportLoss): ToolResult {
  const parts = readParts(message['content'], `${at}.content`, report);
  return {
    id: stringAt(message, 'tool_call_id', at),
    parts: parts.filter((part) => part.type !== 'audio'),
  };
}

function toolsOf(tools: unknown, report: ReportLoss): Tool[] {
  return arrayAt(tools ?? [], 'tools').flatMap((each, index): Tool[] => {
    const at = `tools[${index}]`;
    const tool = recordAt(each, at);
    if (tool['cache_control']) report('cache_control');
    switch (tool['type']) {
      case 'function': {
        const called = recordAt(tool['function'], `${at}.function`);
        return [
          {
            kind: 'function',
            name: stringAt(called, 'name', `${at}.function`),
            description: stringOrNull(called['description']),
            parameters: asRecord(called['parameters']),
            strict: called['strict'] === true,
          },
        ];
      }
      case 'custom': {
        const custom = recordAt(tool['custom'], `${at}.custom`);
        if ((asRecord(custom['format'])?.['type'] ?? 'text') !== 'text') report('tools.custom.format');
        const description = stringOrNull(custom['description']);
        return [{ kind: 'custom', name: stringAt(custom, 'name', `${at}.custom`), description }];
      }
      default:
        report(lossName('tools', tool['type']));
        return [];
    }
  });
}

function choiceOf(choice: unknown, report: ReportLoss): ToolChoice | null {
  if (choice === null || choice === 'auto' || choice === 'none' || choice === 'required') return choice;
  const named = recordAt(choice, 'tool_choice');
  const called = asRecord(named['function']) ?? asRecord(named['custom']);
  if (called) return { name: stringAt(called, 'name', 'tool_choice') };
  report(lossName('tool_choice', named['type']));
  return 'auto';
}

function formatOf(format: Record<string, unknown> | null): ResponseFormat | null {
  switch (format?.['type']) {
    case undefined:
    case 'text':
      return null;
    case 'json_object':
      return { type: 'json_object' };
    case 'json_schema': {
      const at = 'response_format.json_schema';
      const given = recordAt(format['json_schema'], at);
      const schema = recordAt(given['schema'], `${at}.schema`);
      const name = stringOrNull(given['name']) ?? 'reply';
      return { type: 'json_schema', name, schema, strict: given['strict'] === true };
    }
    default:
      throw new Untranslatable('response_format.type', 'must be "text", "json_object" or "json_schema"');
  }
}
