import type {
  AssistantPart,
  Conversation,
  Document,
  Image,
  ReportLoss,
  ResponseFormat,
  Text,
  Tool,
  ToolChoice,
  ToolResult,
  Turn,
  UserPart,
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

/** Requests of Anthropic's Messages API as conversations. Pure. */

/** Members that are translated, or that the relay has already acted on. */
const TRANSLATED = new Set([
  'model',
  'max_tokens',
  'messages',
  'system',
  'tools',
  'tool_choice',
  'temperature',
  'top_p',
  'stop_sequences',
  'stream',
  'thinking',
  'output_config',
]);
/** Content that the provider stores, without which the conversation is incomplete. */
const REFERENCES = ['thread', 'container'];

/** @throws {Untranslatable} for a request that another protocol can't state without changing its meaning. */
export function readMessagesRequest(request: Record<string, unknown>, report: ReportLoss): Conversation {
  for (const name of REFERENCES) {
    if ((request[name] ?? null) !== null)
      throw new Untranslatable(name, "refers to content that this model's provider doesn't store");
  }
  reportOthers(request, TRANSLATED, report);
  if (asRecord(request['thinking'])?.['type'] === 'enabled') report('thinking.budget_tokens');
  const output = asRecord(request['output_config']);
  const choice = asRecord(request['tool_choice']);
  return {
    turns: [...systemOf(request['system'], report), ...turnsOf(request['messages'], report)],
    tools: toolsOf(request['tools'], report),
    toolChoice: choice && choiceOf(choice),
    parallelToolCalls: choice?.['disable_parallel_tool_use'] === true ? false : null,
    reasoningEffort: stringOrNull(output?.['effort']),
    temperature: numberOrNull(request['temperature']),
    topP: numberOrNull(request['top_p']),
    stop: arrayAt(request['stop_sequences'] ?? [], 'stop_sequences').filter(
      (each): each is string => typeof each === 'string',
    ),
    format: formatOf(asRecord(output?.['format'])),
  };
}

function systemOf(system: unknown, report: ReportLoss): Turn[] {
  if ((system ?? null) === null) return [];
  const parts = blocksOf(system, 'system').map(({ block, at }) => textBlock(block, at, report));
  return parts.length === 0 ? [] : [{ role: 'system', parts }];
}

type Block = { block: Record<string, unknown>; at: string };

/** The blocks of a content, which may be a text alone. */
function blocksOf(content: unknown, at: string): Block[] {
  if (typeof content === 'string')
    return content === '' ? [] : [{ block: { type: 'text', text: content }, at }];
  return arrayAt(content, at).map((block, index) => ({
    block: recordAt(block, `${at}[${index}]`),
    at: `${at}[${index}]`,
  }));
}

function textBlock(block: Record<string, unknown>, at: string, report: ReportLoss): Text {
  if (block['cache_control']) report('cache_control');
  return textOf(stringAt(block, 'text', at));
}

function turnsOf(messages: unknown, report: ReportLoss): Turn[] {
  return arrayAt(messages, 'messages').flatMap((each, index) => {
    const at = `messages[${index}]`;
    const message = recordAt(each, at);
    const blocks = blocksOf(message['content'], `${at}.content`);
    switch (message['role']) {
      case 'assistant':
        return turnOf(assistantParts(blocks, report));
      case 'user':
        return userTurns(blocks, report);
      case 'system':
        return [
          { role: 'system', parts: blocks.map(({ block, at: place }) => textBlock(block, place, report)) },
        ];
      default:
        throw new Untranslatable(`${at}.role`, 'must be "user", "assistant" or "system"');
    }
  });
}

const turnOf = (parts: AssistantPart[]): Turn[] => (parts.length === 0 ? [] : [{ role: 'assistant', parts }]);

function assistantParts(blocks: readonly Block[], report: ReportLoss): AssistantPart[] {
  return blocks.flatMap(({ block, at }): AssistantPart[] => {
    switch (block['type']) {
      case 'text':
        return [textBlock(block, at, report)];
      case 'thinking': {
        const signature = stringOrNull(block['signature']);
        return [{ type: 'reasoning', text: stringAt(block, 'thinking', at), signature: signature || null }];
      }
      case 'redacted_thinking':
        return [{ type: 'redacted_reasoning', data: stringAt(block, 'data', at) }];
      case 'tool_use': {
        const [id, name] = [stringAt(block, 'id', at), stringAt(block, 'name', at)];
        const input = JSON.stringify(block['input'] ?? {});
        return [{ type: 'tool_call', id, name, input, isCustom: false }];
      }
      default:
        // Calls of the provider's own tools, and their results.
        report(lossName('messages.content', block['type']));
        return [];
    }
  });
}

/** The results of tools, which other protocols have first, and the rest. */
function userTurns(blocks: readonly Block[], report: ReportLoss): Turn[] {
  const results: ToolResult[] = [];
  const parts: UserPart[] = [];
  for (const { block, at } of blocks) {
    if (block['type'] === 'tool_result') {
      if (block['is_error'] === true) report('tool_result.is_error');
      const content = blocksOf(block['content'] ?? [], `${at}.content`);
      results.push({
        id: stringAt(block, 'tool_use_id', at),
        parts: content.flatMap((each) => userPart(each, report)),
      });
    } else parts.push(...userPart({ block, at }, report));
  }
  return [
    ...(results.length === 0 ? [] : [{ role: 'tool', results } as const]),
    ...(parts.length === 0 ? [] : [{ role: 'user', parts } as const]),
  ];
}

function userPart({ block, at }: Block, report: ReportLoss): (Text | Image | Document)[] {
  switch (block['type']) {
    case 'text':
      return [textBlock(block, at, report)];
    case 'image':
      return [{ type: 'image', url: sourceOf(block, at), detail: null }];
    case 'document': {
      const source = recordAt(block['source'], `${at}.source`);
      // A document may be a text, or blocks of text.
      if (source['type'] === 'text') return [textOf(stringAt(source, 'data', `${at}.source`))];
      if (source['type'] === 'content')
        return blocksOf(source['content'], `${at}.source.content`).flatMap((each) => userPart(each, report));
      return [{ type: 'document', url: sourceOf(block, at), name: stringOrNull(block['title']) }];
    }
    case 'search_result':
      return blocksOf(block['content'], `${at}.content`).flatMap((each) => userPart(each, report));
    default:
      throw new Untranslatable(`${at}.type`, "isn't supported by this model's provider");
  }
}

/** A source as a URL: that of its content, or its address. */
function sourceOf(block: Record<string, unknown>, at: string): string {
  const source = recordAt(block['source'], `${at}.source`);
  switch (source['type']) {
    case 'url':
      return stringAt(source, 'url', `${at}.source`);
    case 'base64': {
      const [type, data] = [stringAt(source, 'media_type', at), stringAt(source, 'data', at)];
      return `data:${type};base64,${data}`;
    }
    default:
      throw new Untranslatable(`${at}.source.type`, 'must be "base64" or "url" for this model\'s provider');
  }
}

function toolsOf(tools: unknown, report: ReportLoss): Tool[] {
  return arrayAt(tools ?? [], 'tools').flatMap((each, index): Tool[] => {
    const at = `tools[${index}]`;
    const tool = recordAt(each, at);
    if (tool['cache_control']) report('cache_control');
    if ((tool['type'] ?? 'custom') !== 'custom') {
      report(lossName('tools', tool['type']));
      return [];
    }
    return [
      {
        kind: 'function',
        name: stringAt(tool, 'name', at),
        description: stringOrNull(tool['description']),
        parameters: asRecord(tool['input_schema']),
        strict: tool['strict'] === true,
      },
    ];
  });
}

function choiceOf(choice: Record<string, unknown>): ToolChoice {
  switch (choice['type']) {
    case 'auto':
    case 'none':
      return choice['type'];
    case 'any':
      return 'required';
    case 'tool':
      return { name: stringAt(choice, 'name', 'tool_choice') };
    default:
      throw new Untranslatable('tool_choice.type', 'must be "auto", "any", "tool" or "none"');
  }
}

function formatOf(format: Record<string, unknown> | null): ResponseFormat | null {
  const schema = asRecord(format?.['schema']);
  return schema && { type: 'json_schema', name: 'reply', schema, strict: true };
}
