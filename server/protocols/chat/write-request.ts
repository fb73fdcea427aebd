import type {
  AssistantPart,
  Conversation,
  Document,
  Image,
  ReportLoss,
  Text,
  Tool,
  ToolCall,
  ToolResult,
  Turn,
  UserPart,
} from '#server/protocols/conversation.ts';
import { inputOf, parametersOf } from '#server/protocols/custom-tools.ts';
import type { ReasoningForm } from '#server/providers/provider.ts';

/** Conversations as requests for chat completions. Pure. */

export type ChatRequestOptions = {
  model: string;
  isStreamed: boolean;
  /** The client's own limit on the reply, in tokens; null: none. */
  tokenLimit: number | null;
  tokenLimitMember: string;
  reasoning: ReasoningForm;
  /** Whether a tool's result may have images and documents; else they follow in a message of the user's. */
  hasFilesInResults?: boolean;
};

/** @returns the request as JSON. */
export function writeChatRequest(
  conversation: Conversation,
  { model, isStreamed, tokenLimit, tokenLimitMember, reasoning, hasFilesInResults }: ChatRequestOptions,
  report: ReportLoss,
): string {
  const { turns, tools, toolChoice, parallelToolCalls, reasoningEffort, stop, format } = conversation;
  const hasTools = tools.length > 0;
  return JSON.stringify({
    model,
    // What grows from call to call is last: a prompt's cache begins with the tools.
    ...(hasTools && { tools: tools.map(toolOf) }),
    ...(hasTools && toolChoice !== null && { tool_choice: choiceOf(toolChoice) }),
    ...(hasTools && parallelToolCalls !== null && { parallel_tool_calls: parallelToolCalls }),
    ...(reasoningEffort !== null && { reasoning_effort: reasoningEffort }),
    ...(conversation.temperature !== null && { temperature: conversation.temperature }),
    ...(conversation.topP !== null && { top_p: conversation.topP }),
    ...(stop.length > 0 && { stop }),
    ...(format && { response_format: formatOf(format) }),
    ...(tokenLimit !== null && { [tokenLimitMember]: tokenLimit }),
    ...(isStreamed && { stream: true }),
    messages: turns.flatMap((turn) =>
      turn.role === 'tool' && hasFilesInResults === true
        ? turn.results.map(wholeResult)
        : messagesOf(turn, reasoning, report),
    ),
  });
}

function messagesOf(turn: Turn, reasoning: ReasoningForm, report: ReportLoss): object[] {
  switch (turn.role) {
    case 'system':
      return [{ role: 'system', content: turn.parts.map(({ text }) => text).join('\n\n') }];
    case 'user':
      return [{ role: 'user', content: contentOf(turn.parts) }];
    case 'assistant':
      return [assistantMessage(turn.parts, reasoning, report)];
    case 'tool':
      return toolMessages(turn.results);
  }
}

/** Some upstreams take a text only as a string. */
function contentOf(parts: readonly UserPart[]): unknown {
  const [first] = parts;
  return parts.length === 1 && first?.type === 'text' ? first.text : parts.map(partOf);
}

function partOf(part: UserPart): object {
  switch (part.type) {
    case 'text':
      return part;
    case 'image': {
      const { url, detail } = part;
      return { type: 'image_url', image_url: { url, ...(detail !== null && { detail }) } };
    }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: part.data, format: part.format } };
    case 'document':
      return { type: 'file', file: { filename: part.name ?? 'document', file_data: part.url } };
  }
}

function assistantMessage(parts: readonly AssistantPart[], form: ReasoningForm, report: ReportLoss): object {
  const texts = parts.filter((part) => part.type === 'text');
  const calls = parts.filter((part) => part.type === 'tool_call');
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : texts.map(({ text }) => text).join(''),
    ...reasoningOf(parts, form, report),
    ...(calls.length > 0 && { tool_calls: calls.map(callOf) }),
  };
}

function reasoningOf(parts: readonly AssistantPart[], form: ReasoningForm, report: ReportLoss): object {
  const reasoning = parts.filter(({ type }) => type === 'reasoning' || type === 'redacted_reasoning');
  if (reasoning.length === 0) return {};
  switch (form) {
    case 'none':
      report('reasoning');
      return {};
    case 'content': {
      const texts = parts.filter((part) => part.type === 'reasoning');
      return texts.length === 0 ? {} : { reasoning_content: texts.map(({ text }) => text).join('') };
    }
    case 'details':
      return { reasoning_details: parts.flatMap(detailsOf) };
  }
}

function detailsOf(part: AssistantPart, index: number): object[] {
  if (part.type === 'redacted_reasoning') return [{ type: 'reasoning.encrypted', data: part.data, index }];
  if (part.type !== 'reasoning') return [];
  const { text, signature } = part;
  return [{ type: 'reasoning.text', text, ...(signature !== null && { signature }), index }];
}

const callOf = (call: ToolCall): object => ({
  id: call.id,
  type: 'function',
  function: { name: call.name, arguments: inputOf(call) },
});

const wholeResult = ({ id, parts }: ToolResult): object => ({
  role: 'tool',
  tool_call_id: id,
  content: contentOf(parts),
});

/** A tool's result is text; images and documents follow in a message of the user's. */
function toolMessages(results: readonly ToolResult[]): object[] {
  const files: (Text | Image | Document)[] = [];
  const messages = results.map(({ id, parts }) => {
    const texts = parts.filter((part) => part.type === 'text');
    const others = parts.filter((part) => part.type !== 'text');
    if (others.length > 0) files.push({ type: 'text', text: `Files of the result of ${id}:` }, ...others);
    return { role: 'tool', tool_call_id: id, content: texts.map(({ text }) => text).join('\n') };
  });
  return files.length === 0 ? messages : [...messages, { role: 'user', content: contentOf(files) }];
}

function toolOf(tool: Tool): object {
  const description = tool.description === null ? {} : { description: tool.description };
  const parameters = parametersOf(tool);
  const strict = tool.kind === 'function' && tool.strict ? { strict: true } : {};
  return { type: 'function', function: { name: tool.name, ...description, parameters, ...strict } };
}

const choiceOf = (choice: NonNullable<Conversation['toolChoice']>): unknown =>
  typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name } };

function formatOf(format: NonNullable<Conversation['format']>): object {
  if (format.type === 'json_object') return format;
  const { name, schema, strict } = format;
  return { type: 'json_schema', json_schema: { name, schema, ...(strict && { strict }) } };
}
