import type {
  AssistantPart,
  Conversation,
  Document,
  Image,
  Audio,
  ReportLoss,
  ResponseFormat,
  Text,
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
  textOf,
  Untranslatable,
} from '#server/protocols/fields.ts';
import { asRecord } from '#server/wire/counts.ts';

/** Requests of OpenAI's Responses API as conversations. Pure. */

/** Members that are translated, that the relay has already acted on, or that its reply repeats. */
const TRANSLATED = new Set([
  'model',
  'input',
  'instructions',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'temperature',
  'top_p',
  'max_output_tokens',
  'stream',
  'stream_options',
  'reasoning',
  'text',
  'include',
  'store',
  'background',
  'metadata',
  'truncation',
  'client_metadata',
]);
/** Content that the provider stores, without which the conversation is incomplete. */
const REFERENCES = ['previous_response_id', 'conversation', 'prompt'];
export const ENCRYPTED = 'reasoning.encrypted_content';
/** Begins the encrypted content of reasoning that its provider shows to no one. */
export const REDACTED = 'redacted:';

/** @throws {Untranslatable} for a request that another protocol can't state without changing its meaning. */
export function readResponsesRequest(request: Record<string, unknown>, report: ReportLoss): Conversation {
  for (const name of REFERENCES) {
    if ((request[name] ?? null) !== null)
      throw new Untranslatable(
        name,
        'refers to content that the provider doesn\'t store; send the whole conversation as "input"',
      );
  }
  reportOthers(request, TRANSLATED, report);
  if (request['store'] === true) report('store');
  if (request['truncation'] === 'auto') report('truncation');
  for (const each of arrayAt(request['include'] ?? [], 'include')) {
    if (each !== ENCRYPTED) report(lossName('include', each));
  }
  const text = asRecord(request['text']);
  if ((text?.['verbosity'] ?? null) !== null) report('text.verbosity');
  const tools = toolsOf(request['tools'], report);
  return {
    turns: [...instructionsOf(request['instructions']), ...turnsOf(request['input'], report)],
    tools,
    toolChoice: tools.length === 0 ? null : choiceOf(request['tool_choice'] ?? null, report),
    parallelToolCalls: request['parallel_tool_calls'] === false ? false : null,
    reasoningEffort: stringOrNull(asRecord(request['reasoning'])?.['effort']),
    temperature: numberOrNull(request['temperature']),
    topP: numberOrNull(request['top_p']),
    stop: [],
    format: formatOf(asRecord(text?.['format'])),
  };
}

const instructionsOf = (instructions: unknown): Turn[] =>
  typeof instructions === 'string' && instructions !== ''
    ? [{ role: 'system', parts: [textOf(instructions)] }]
    : [];

function turnsOf(input: unknown, report: ReportLoss): Turn[] {
  if (typeof input === 'string') return [{ role: 'user', parts: [textOf(input)] }];
  const turns: Turn[] = [];
  for (const [index, each] of arrayAt(input ?? [], 'input').entries()) {
    const at = `input[${index}]`;
    addItem(turns, recordAt(each, at), at, report);
  }
  return turns;
}

/** Adds an item to the turn that it belongs to: reasoning, text and calls in a row are one reply. */
function addItem(turns: Turn[], item: Record<string, unknown>, at: string, report: ReportLoss): void {
  switch (item['type'] ?? 'message') {
    case 'message':
      return addMessage(turns, item, at);
    case 'function_call':
    case 'custom_tool_call': {
      const isCustom = item['type'] === 'custom_tool_call';
      const input = stringAt(item, isCustom ? 'input' : 'arguments', at);
      const [id, name] = [stringAt(item, 'call_id', at), stringAt(item, 'name', at)];
      return addToReply(turns, { type: 'tool_call', id, name, input, isCustom });
    }
    case 'function_call_output':
    case 'custom_tool_call_output':
      return addResult(turns, {
        id: stringAt(item, 'call_id', at),
        parts: partsOf(item['output'], `${at}.output`).filter((part) => part.type !== 'audio'),
      });
    case 'reasoning':
      return addReasoning(turns, item);
    case 'item_reference':
      throw new Untranslatable(at, "refers to an item that this model's provider doesn't store");
    default:
      // Calls of the provider's own tools, and their results.
      report(lossName('input', item['type']));
  }
}

function addMessage(turns: Turn[], item: Record<string, unknown>, at: string): void {
  const parts = partsOf(item['content'], `${at}.content`);
  switch (item['role']) {
    case 'assistant': {
      const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
      return addToReply(turns, textOf(text));
    }
    case 'system':
    case 'developer':
      turns.push({ role: 'system', parts: parts.filter((part) => part.type === 'text') });
      return;
    case 'user':
      turns.push({ role: 'user', parts });
      return;
    default:
      throw new Untranslatable(`${at}.role`, 'must be "user", "assistant", "system" or "developer"');
  }
}

/** Two texts are two replies, unless a call between them still waits for its result. */
function addToReply(turns: Turn[], part: AssistantPart): void {
  const last = turns.at(-1);
  const has = (type: AssistantPart['type']): boolean =>
    last?.role === 'assistant' && last.parts.some((each) => each.type === type);
  const isNext = part.type !== 'tool_call' && has('text') && !has('tool_call');
  if (last?.role === 'assistant' && !isNext) last.parts.push(part);
  else turns.push({ role: 'assistant', parts: [part] });
}

function addResult(turns: Turn[], result: ToolResult): void {
  const last = turns.at(-1);
  if (last?.role === 'tool') last.results.push(result);
  else turns.push({ role: 'tool', results: [result] });
}

/** The text is in the content, or summarized. */
function addReasoning(turns: Turn[], item: Record<string, unknown>): void {
  const textIn = (parts: unknown): string =>
    Array.isArray(parts) ? parts.map((part) => stringOrNull(asRecord(part)?.['text']) ?? '').join('') : '';
  const text = textIn(item['content']) || textIn(item['summary']);
  const signature = stringOrNull(item['encrypted_content']);
  if (signature?.startsWith(REDACTED))
    addToReply(turns, { type: 'redacted_reasoning', data: signature.slice(REDACTED.length) });
  else if (text !== '' || signature !== null) addToReply(turns, { type: 'reasoning', text, signature });
}

function partsOf(content: unknown, at: string): (Text | Image | Audio | Document)[] {
  if (typeof content === 'string') return [textOf(content)];
  return arrayAt(content, at).map((each, index) =>
    partOf(recordAt(each, `${at}[${index}]`), `${at}[${index}]`),
  );
}

function partOf(part: Record<string, unknown>, at: string): Text | Image | Audio | Document {
  switch (part['type']) {
    case 'input_text':
    case 'output_text':
    case 'text':
      return textOf(stringAt(part, 'text', at));
    case 'refusal':
      return textOf(stringAt(part, 'refusal', at));
    case 'input_image':
      return { type: 'image', url: stringAt(part, 'image_url', at), detail: stringOrNull(part['detail']) };
    case 'input_file': {
      const url = stringOrNull(part['file_data']) ?? stringAt(part, 'file_url', at);
      return { type: 'document', url, name: stringOrNull(part['filename']) };
    }
    case 'input_audio': {
      const audio = recordAt(part['input_audio'], `${at}.input_audio`);
      return { type: 'audio', data: stringAt(audio, 'data', at), format: stringAt(audio, 'format', at) };
    }
    default:
      throw new Untranslatable(`${at}.type`, "isn't supported by this model's provider");
  }
}

function toolsOf(tools: unknown, report: ReportLoss): Tool[] {
  return arrayAt(tools ?? [], 'tools').flatMap((each, index): Tool[] => {
    const at = `tools[${index}]`;
    const tool = recordAt(each, at);
    const description = stringOrNull(tool['description']);
    switch (tool['type']) {
      case 'function': {
        const [name, parameters] = [stringAt(tool, 'name', at), asRecord(tool['parameters'])];
        return [{ kind: 'function', name, description, parameters, strict: tool['strict'] === true }];
      }
      case 'custom': {
        const grammar = stringOrNull(asRecord(tool['format'])?.['definition']);
        const described =
          grammar === null ? description : `${description ?? ''}\n\nGrammar:\n${grammar}`.trim();
        return [{ kind: 'custom', name: stringAt(tool, 'name', at), description: described }];
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
  if (named['type'] === 'function' || named['type'] === 'custom')
    return { name: stringAt(named, 'name', 'tool_choice') };
  report(lossName('tool_choice', named['type']));
  return named['mode'] === 'required' ? 'required' : 'auto';
}

function formatOf(format: Record<string, unknown> | null): ResponseFormat | null {
  switch (format?.['type']) {
    case 'json_object':
      return { type: 'json_object' };
    case 'json_schema': {
      const schema = recordAt(format['schema'], 'text.format.schema');
      const name = stringOrNull(format['name']) ?? 'reply';
      return { type: 'json_schema', name, schema, strict: format['strict'] === true };
    }
    default:
      return null;
  }
}
