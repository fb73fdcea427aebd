import type {
  AssistantPart,
  Conversation,
  ReportLoss,
  Tool,
  ToolCall,
  ToolResult,
  Turn,
  UserPart,
} from '#server/protocols/conversation.ts';
import { ENCRYPTED } from '#server/protocols/responses/read-request.ts';

/** Conversations as requests of OpenAI's Responses API. Nothing is stored there. Pure. */

export type ResponsesRequestOptions = {
  model: string;
  isStreamed: boolean;
  /** The client's own limit on the reply, in tokens; null: none. */
  tokenLimit: number | null;
};

/** @returns the request as JSON. */
export function writeResponsesRequest(
  conversation: Conversation,
  { model, isStreamed, tokenLimit }: ResponsesRequestOptions,
  report: ReportLoss,
): string {
  const { turns, tools, toolChoice, parallelToolCalls, reasoningEffort, stop, format } = conversation;
  if (stop.length > 0) report('stop');
  const [first] = turns;
  const instructions =
    first?.role === 'system' && first.parts.length === 1 ? first.parts[0]?.text : undefined;
  const items = itemsOf(instructions === undefined ? turns : turns.slice(1), report);
  const hasTools = tools.length > 0;
  return JSON.stringify({
    model,
    store: false,
    // Models that don't reason refuse to be asked for it.
    ...(thinks(conversation) && { include: [ENCRYPTED] }),
    ...(hasTools && { tools: tools.map(toolOf) }),
    ...(hasTools && toolChoice !== null && { tool_choice: choiceOf(toolChoice, tools) }),
    ...(hasTools && parallelToolCalls !== null && { parallel_tool_calls: parallelToolCalls }),
    ...(reasoningEffort !== null && { reasoning: { effort: reasoningEffort } }),
    ...(conversation.temperature !== null && { temperature: conversation.temperature }),
    ...(conversation.topP !== null && { top_p: conversation.topP }),
    ...(format && { text: { format } }),
    ...(tokenLimit !== null && { max_output_tokens: tokenLimit }),
    ...(isStreamed && { stream: true }),
    ...(instructions !== undefined && { instructions }),
    input: items,
  });
}

function thinks({ reasoningEffort, turns }: Conversation): boolean {
  if (reasoningEffort !== null) return reasoningEffort !== 'none';
  return turns.some(
    (turn) =>
      turn.role === 'assistant' &&
      turn.parts.some((part) => part.type === 'reasoning' && part.signature !== null),
  );
}

function itemsOf(turns: readonly Turn[], report: ReportLoss): object[] {
  const customs = new Set<string>();
  return turns.flatMap((turn): object[] => {
    switch (turn.role) {
      case 'system':
      case 'user':
        return [{ type: 'message', role: turn.role, content: contentOf(turn.parts) }];
      case 'assistant':
        for (const part of turn.parts) if (part.type === 'tool_call' && part.isCustom) customs.add(part.id);
        return assistantItems(turn.parts, report);
      case 'tool':
        return turn.results.map((result) => resultItem(result, customs));
    }
  });
}

/** A text in a row with others is a part of one message. */
function assistantItems(parts: readonly AssistantPart[], report: ReportLoss): object[] {
  const items: object[] = [];
  let content: object[] | null = null;
  for (const part of parts) {
    if (part.type === 'text') {
      if (content === null) items.push({ type: 'message', role: 'assistant', content: (content = []) });
      content.push({ type: 'output_text', text: part.text, annotations: [] });
      continue;
    }
    content = null;
    if (part.type === 'tool_call') items.push(callItem(part));
    else if (part.type === 'reasoning' && part.signature !== null)
      items.push({
        type: 'reasoning',
        summary: part.text === '' ? [] : [{ type: 'summary_text', text: part.text }],
        encrypted_content: part.signature,
      });
    // The provider knows its own reasoning by its signature alone.
    else report('reasoning');
  }
  return items;
}

function callItem({ id, name, input, isCustom }: ToolCall): object {
  return isCustom
    ? { type: 'custom_tool_call', call_id: id, name, input }
    : { type: 'function_call', call_id: id, name, arguments: input };
}

function resultItem({ id, parts }: ToolResult, customs: ReadonlySet<string>): object {
  const type = customs.has(id) ? 'custom_tool_call_output' : 'function_call_output';
  return { type, call_id: id, output: contentOf(parts) };
}

function contentOf(parts: readonly UserPart[]): unknown {
  const [first] = parts;
  return parts.length === 1 && first?.type === 'text' ? first.text : parts.map(partOf);
}

function partOf(part: UserPart): object {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return {
        type: 'input_image',
        image_url: part.url,
        ...(part.detail !== null && { detail: part.detail }),
      };
    case 'audio':
      return { type: 'input_audio', input_audio: { data: part.data, format: part.format } };
    case 'document': {
      const name = part.name === null ? {} : { filename: part.name };
      if (!part.url.startsWith('data:')) return { type: 'input_file', ...name, file_url: part.url };
      return { type: 'input_file', filename: 'document', ...name, file_data: part.url };
    }
  }
}

function toolOf(tool: Tool): object {
  const description = tool.description === null ? {} : { description: tool.description };
  if (tool.kind === 'custom') return { type: 'custom', name: tool.name, ...description };
  // Functions are strict there unless they say that they aren't.
  const parameters = tool.parameters ?? { type: 'object', properties: {} };
  return { type: 'function', name: tool.name, ...description, parameters, strict: tool.strict };
}

function choiceOf(choice: NonNullable<Conversation['toolChoice']>, tools: readonly Tool[]): unknown {
  if (typeof choice === 'string') return choice;
  const tool = tools.find(({ name }) => name === choice.name);
  return { type: tool?.kind ?? 'function', name: choice.name };
}
