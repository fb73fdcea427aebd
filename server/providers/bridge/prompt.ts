import type {
  FilePart,
  Message,
  OwnValues,
  Specification,
  TextPart,
  ToolCallPart,
} from '#server/providers/bridge/language-model.ts';
import { listAt, objectAt, textAt, UnsupportedField } from '#server/providers/bridge/fields.ts';

/**
 * The messages of a chat as the prompt of a language model. Pure. Nothing is fetched: an address goes
 * on as an address.
 * @throws {UnsupportedField} for content that a prompt can't hold.
 */
export function promptOf(messages: unknown, specification: Specification): Message[] {
  const prompt: Message[] = [];
  const toolNames = new Map<string, string>();
  for (const [index, each] of listAt(messages, 'messages').entries()) {
    const param = `messages[${index}]`;
    const message = objectAt(each, param);
    switch (message['role']) {
      case 'system':
      case 'developer':
        prompt.push({ role: 'system', content: textOf(message['content'], `${param}.content`) });
        break;
      case 'user':
        prompt.push({
          role: 'user',
          content: userParts(message['content'], `${param}.content`, specification),
        });
        break;
      case 'assistant':
        prompt.push({ role: 'assistant', content: assistantParts(message, param, toolNames) });
        break;
      case 'tool':
        addToolResult(prompt, message, param, toolNames);
        break;
      default:
        throw new UnsupportedField(
          `${param}.role`,
          `The field "${param}.role" must be system, developer, user, assistant or tool.`,
        );
    }
  }
  return prompt;
}

/** Content that can only be text: a string, or parts of text. */
function textOf(content: unknown, param: string): string {
  if (!Array.isArray(content)) return textAt(content, param);
  return content
    .map((each, index) => {
      const part = objectAt(each, `${param}[${index}]`);
      if (part['type'] === 'text') return textAt(part['text'], `${param}[${index}].text`);
      if (part['type'] === 'refusal') return textAt(part['refusal'], `${param}[${index}].refusal`);
      throw new UnsupportedField(
        `${param}[${index}].type`,
        `The field "${param}[${index}].type" must be text in this message.`,
      );
    })
    .join('');
}

function userParts(content: unknown, param: string, specification: Specification): (TextPart | FilePart)[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  const parts = listAt(content, param).map((each, index) =>
    userPart(objectAt(each, `${param}[${index}]`), `${param}[${index}]`, specification),
  );
  // Some providers refuse a part without text, which says nothing beside others.
  const said = parts.filter((part) => part.type !== 'text' || part.text !== '');
  return said.length > 0 ? said : parts;
}

function userPart(
  part: Record<string, unknown>,
  param: string,
  specification: Specification,
): TextPart | FilePart {
  switch (part['type']) {
    case 'text':
      return { type: 'text', text: textAt(part['text'], `${param}.text`) };
    case 'image_url': {
      const url = textAt(objectAt(part['image_url'], `${param}.image_url`)['url'], `${param}.image_url.url`);
      return filePart(url, 'image/*', `${param}.image_url.url`, specification);
    }
    case 'input_audio': {
      const audio = objectAt(part['input_audio'], `${param}.input_audio`);
      const format = textAt(audio['format'], `${param}.input_audio.format`);
      const data = textAt(audio['data'], `${param}.input_audio.data`);
      return inlinePart(data, format === 'mp3' ? 'audio/mpeg' : `audio/${format}`, specification);
    }
    case 'file': {
      const file = objectAt(part['file'], `${param}.file`);
      if (typeof file['file_data'] !== 'string')
        throw new UnsupportedField(
          `${param}.file`,
          'A file must be sent in "file_data"; this upstream does not know the ids of uploaded files.',
        );
      const filename = typeof file['filename'] === 'string' ? { filename: file['filename'] } : {};
      return {
        ...filePart(file['file_data'], 'application/pdf', `${param}.file.file_data`, specification),
        ...filename,
      };
    }
    default:
      throw new UnsupportedField(
        `${param}.type`,
        `The field "${param}.type" must be text, image_url, input_audio or file.`,
      );
  }
}

const DATA_URL_BEGINS = /^data:([\w.+-]+\/[\w.+-]+)?((?:;[^;,]*)*),/i;

/** A file by its address; one of the scheme `data:` holds it. */
function filePart(address: string, mediaType: string, param: string, specification: Specification): FilePart {
  const inline = DATA_URL_BEGINS.exec(address.slice(0, 500));
  if (inline) {
    const data = address.slice(inline[0].length);
    const base64 = /;base64$/i.test(inline[2] ?? '')
      ? data
      : Buffer.from(decoded(data, param)).toString('base64');
    return inlinePart(base64, inline[1] ?? 'text/plain', specification);
  }
  const url = URL.parse(address);
  if (
    url?.protocol !== 'https:' &&
    url?.protocol !== 'http:' &&
    url?.protocol !== 'gs:' &&
    url?.protocol !== 's3:'
  ) {
    throw new UnsupportedField(param, `The field "${param}" must be a data: URL or the address of a file.`);
  }
  return { type: 'file', mediaType, data: specification === 'v3' ? url : { type: 'url', url } };
}

function inlinePart(base64: string, mediaType: string, specification: Specification): FilePart {
  return {
    type: 'file',
    mediaType: mediaType.toLowerCase(),
    data: specification === 'v3' ? base64 : { type: 'data', data: base64 },
  };
}

function decoded(text: string, param: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new UnsupportedField(param, `The field "${param}" is not a well-formed data: URL.`);
  }
}

type AssistantContent = Extract<Message, { role: 'assistant' }>['content'];

function assistantParts(
  message: Record<string, unknown>,
  param: string,
  toolNames: Map<string, string>,
): AssistantContent {
  const parts: AssistantContent = [];
  const reasoning = message['reasoning_content'];
  if (typeof reasoning === 'string' && reasoning !== '') parts.push({ type: 'reasoning', text: reasoning });
  const content = message['content'] ?? message['refusal'] ?? '';
  const text = textOf(content, `${param}.content`);
  if (text !== '') parts.push({ type: 'text', text });
  for (const [index, each] of listAt(message['tool_calls'], `${param}.tool_calls`).entries()) {
    const call = toolCallPart(
      objectAt(each, `${param}.tool_calls[${index}]`),
      `${param}.tool_calls[${index}]`,
    );
    toolNames.set(call.toolCallId, call.toolName);
    parts.push(call);
  }
  return parts;
}

function toolCallPart(call: Record<string, unknown>, param: string): ToolCallPart {
  if (call['type'] !== undefined && call['type'] !== 'function')
    throw new UnsupportedField(
      `${param}.type`,
      'Only tools of the type "function" can be used with this upstream.',
    );
  const called = objectAt(call['function'], `${param}.function`);
  const own = ownValuesOf(call['extra_content']);
  return {
    type: 'tool-call',
    toolCallId: textAt(call['id'], `${param}.id`),
    toolName: textAt(called['name'], `${param}.function.name`),
    input: inputOf(textAt(called['arguments'] ?? '', `${param}.function.arguments`)),
    ...(own ? { providerOptions: own } : {}),
  };
}

/** Models write arguments that are not valid JSON, and agents report that back: such a history must go on. */
function inputOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const input = JSON.parse(text) as unknown;
    if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input;
  } catch {
    // Reported below.
  }
  return { invalid_arguments: text };
}

/**
 * What the provider wants back with a call of its own, such as Gemini's thought signatures, as the client got
 * it.
 */
function ownValuesOf(extra: unknown): OwnValues | undefined {
  if (typeof extra !== 'object' || extra === null) return undefined;
  const own = Object.entries(extra).filter(
    ([, values]) => typeof values === 'object' && values !== null && !Array.isArray(values),
  );
  return own.length > 0 ? Object.fromEntries(own) : undefined;
}

/** Results that follow one another are one message. */
function addToolResult(
  prompt: Message[],
  message: Record<string, unknown>,
  param: string,
  toolNames: Map<string, string>,
): void {
  const toolCallId = textAt(message['tool_call_id'], `${param}.tool_call_id`);
  const toolName = toolNames.get(toolCallId);
  if (toolName === undefined)
    throw new UnsupportedField(
      `${param}.tool_call_id`,
      `The field "${param}.tool_call_id" names no tool call of a message before it.`,
    );
  const result = {
    type: 'tool-result' as const,
    toolCallId,
    toolName,
    output: { type: 'text' as const, value: textOf(message['content'], `${param}.content`) },
  };
  const last = prompt.at(-1);
  if (last?.role === 'tool') last.content.push(result);
  else prompt.push({ role: 'tool', content: [result] });
}
