import type {
  AssistantPart,
  Conversation,
  Image,
  Document,
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
import { REDACTED_SIGNATURE } from '#server/protocols/signatures.ts';
import { asRecord } from '#server/wire/counts.ts';

/** Requests of Gemini's `generateContent` as conversations. Pure. */

const TRANSLATED = new Set(['contents', 'systemInstruction', 'tools', 'toolConfig', 'generationConfig']);
const TRANSLATED_CONFIG = new Set([
  'temperature',
  'topP',
  'maxOutputTokens',
  'stopSequences',
  'candidateCount',
  'responseMimeType',
  'responseSchema',
  'responseJsonSchema',
  'thinkingConfig',
]);

/** @throws {Untranslatable} for a request that another protocol can't state without changing its meaning. */
export function readGeminiRequest(request: Record<string, unknown>, report: ReportLoss): Conversation {
  if ((request['cachedContent'] ?? null) !== null)
    throw new Untranslatable('cachedContent', "refers to content that this model's provider doesn't store");
  reportOthers(request, TRANSLATED, report);
  const config = asRecord(request['generationConfig']) ?? {};
  reportOthers(config, TRANSLATED_CONFIG, (name) => report(`generationConfig.${name}`));
  if ((config['candidateCount'] ?? 1) !== 1)
    throw new Untranslatable('generationConfig.candidateCount', 'must be 1');
  const thinking = asRecord(config['thinkingConfig']);
  if ((thinking?.['thinkingBudget'] ?? null) !== null)
    report('generationConfig.thinkingConfig.thinkingBudget');
  const tools = toolsOf(request['tools'], report);
  return {
    turns: [...systemOf(request['systemInstruction']), ...turnsOf(request['contents'], report)],
    tools,
    toolChoice: choiceOf(asRecord(asRecord(request['toolConfig'])?.['functionCallingConfig'])),
    parallelToolCalls: null,
    reasoningEffort: stringOrNull(thinking?.['thinkingLevel'])?.toLowerCase() ?? null,
    temperature: numberOrNull(config['temperature']),
    topP: numberOrNull(config['topP']),
    stop: arrayAt(config['stopSequences'] ?? [], 'generationConfig.stopSequences').filter(
      (each): each is string => typeof each === 'string',
    ),
    format: formatOf(config),
  };
}

type Part = { part: Record<string, unknown>; at: string };

function partsIn(content: unknown, at: string): Part[] {
  if (typeof content === 'string') return [{ part: { text: content }, at }];
  const parts = recordAt(content, at)['parts'];
  return arrayAt(Array.isArray(parts) ? parts : [parts], `${at}.parts`).map((part, index) => ({
    part: recordAt(part, `${at}.parts[${index}]`),
    at: `${at}.parts[${index}]`,
  }));
}

function systemOf(system: unknown): Turn[] {
  if ((system ?? null) === null) return [];
  const parts = partsIn(system, 'systemInstruction').map(({ part, at }) =>
    textOf(stringAt(part, 'text', at)),
  );
  return [{ role: 'system', parts }];
}

/** A call without a result. Where clients send no ids, a result is that of the first such call. */
type Pending = { id: string; name: string };

function turnsOf(contents: unknown, report: ReportLoss): Turn[] {
  const pending: Pending[] = [];
  let count = 0;
  return arrayAt(Array.isArray(contents) ? contents : [contents], 'contents').flatMap((content, index) => {
    const at = `contents[${index}]`;
    const parts = partsIn(content, at);
    if (asRecord(content)?.['role'] !== 'model') return userTurns(parts, pending, report);
    const said = parts.flatMap(({ part, at: place }): AssistantPart[] => {
      const call = asRecord(part['functionCall']);
      if (!call) return writtenPart(part, report);
      const name = stringAt(call, 'name', `${place}.functionCall`);
      const id = stringOrNull(call['id']) ?? `call_${count++}`;
      pending.push({ id, name });
      const input = JSON.stringify(call['args'] ?? {});
      return [...signatureOf(part, ''), { type: 'tool_call', id, name, input, isCustom: false }];
    });
    return said.length === 0 ? [] : [{ role: 'assistant', parts: said } as const];
  });
}

function writtenPart(part: Record<string, unknown>, report: ReportLoss): AssistantPart[] {
  const text = stringOrNull(part['text']);
  if (text === null) {
    report(lossName('contents.parts', Object.keys(part)[0]));
    return [];
  }
  if (part['thought'] === true)
    return typeof part['thoughtSignature'] === 'string'
      ? signatureOf(part, text)
      : [{ type: 'reasoning', text, signature: null }];
  return [...(text === '' ? [] : [textOf(text)]), ...signatureOf(part, '')];
}

/** The signature of a part, with the thought that it proves. */
function signatureOf(part: Record<string, unknown>, text: string): AssistantPart[] {
  const signature = stringOrNull(part['thoughtSignature']);
  if (!signature) return [];
  if (signature.startsWith(REDACTED_SIGNATURE))
    return [{ type: 'redacted_reasoning', data: signature.slice(REDACTED_SIGNATURE.length) }];
  return [{ type: 'reasoning', text, signature }];
}

function userTurns(parts: readonly Part[], pending: Pending[], report: ReportLoss): Turn[] {
  const results: ToolResult[] = [];
  const others: UserPart[] = [];
  for (const { part, at } of parts) {
    const response = asRecord(part['functionResponse']);
    if (response) results.push(resultOf(response, at, pending, report));
    else others.push(...userPart(part, at, report));
  }
  return [
    ...(results.length === 0 ? [] : [{ role: 'tool', results } as const]),
    ...(others.length === 0 ? [] : [{ role: 'user', parts: others } as const]),
  ];
}

function resultOf(
  response: Record<string, unknown>,
  at: string,
  pending: Pending[],
  report: ReportLoss,
): ToolResult {
  const name = stringAt(response, 'name', `${at}.functionResponse`);
  const given = stringOrNull(response['id']);
  const index = pending.findIndex((call) => (given === null ? call.name === name : call.id === given));
  const [call] = index < 0 ? [] : pending.splice(index, 1);
  const id = given ?? call?.id;
  if (id === undefined)
    throw new Untranslatable(`${at}.functionResponse.name`, 'must be that of a call before it');
  const files = (Array.isArray(response['parts']) ? (response['parts'] as unknown[]) : []).flatMap((part) =>
    userPart(recordAt(part, at), at, report).filter((each) => each.type !== 'audio'),
  );
  return { id, parts: [resultText(response['response']), ...files] };
}

/** The only text of a result, or the result as JSON. */
function resultText(response: unknown): Text {
  const values = Object.values(asRecord(response) ?? {});
  const [only] = values;
  return textOf(values.length === 1 && typeof only === 'string' ? only : JSON.stringify(response ?? {}));
}

function userPart(part: Record<string, unknown>, at: string, report: ReportLoss): UserPart[] {
  const text = stringOrNull(part['text']);
  if (text !== null) return text === '' ? [] : [textOf(text)];
  const inline = asRecord(part['inlineData']);
  if (inline) return [inlinePart(inline, `${at}.inlineData`)];
  const file = asRecord(part['fileData']);
  if (file) {
    const uri = stringAt(file, 'fileUri', `${at}.fileData`);
    if (/\/\/generativelanguage\.googleapis\.com\//.test(uri) || !/^https?:/.test(uri))
      throw new Untranslatable(
        `${at}.fileData.fileUri`,
        "is a file that this model's provider doesn't store",
      );
    return [fileOf(uri, stringOrNull(file['mimeType']) ?? '')];
  }
  report(lossName('contents.parts', Object.keys(part)[0]));
  return [];
}

function inlinePart(inline: Record<string, unknown>, at: string): UserPart {
  const [type, data] = [stringAt(inline, 'mimeType', at), stringAt(inline, 'data', at)];
  const audio = /^audio\/(?:x-)?(wav|mp3|mpeg)$/.exec(type)?.[1];
  if (audio !== undefined) return { type: 'audio', data, format: audio === 'wav' ? 'wav' : 'mp3' };
  return fileOf(`data:${type};base64,${data}`, type);
}

const fileOf = (url: string, type: string): Image | Document =>
  type.startsWith('image/') ? { type: 'image', url, detail: null } : { type: 'document', url, name: null };

function toolsOf(tools: unknown, report: ReportLoss): Tool[] {
  return arrayAt(tools ?? [], 'tools').flatMap((each, index) => {
    const { functionDeclarations, ...others } = recordAt(each, `tools[${index}]`);
    // Tools that the provider runs.
    for (const name of Object.keys(others)) report(lossName('tools', name));
    const at = `tools[${index}].functionDeclarations`;
    return arrayAt(functionDeclarations ?? [], at).map((declared, place): Tool => {
      const tool = recordAt(declared, `${at}[${place}]`);
      const parameters = asRecord(tool['parametersJsonSchema']) ?? schemaOf(tool['parameters']);
      const name = stringAt(tool, 'name', `${at}[${place}]`);
      return {
        kind: 'function',
        name,
        description: stringOrNull(tool['description']),
        parameters,
        strict: false,
      };
    });
  });
}

/** A schema of Google's as a JSON schema: the names of its types are in capitals. */
function schemaOf(schema: unknown): object | null {
  const record = asRecord(schema);
  return record && (lowered(record) as object);
}

function lowered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(lowered);
  const record = asRecord(value);
  if (!record) return value;
  return Object.fromEntries(
    Object.entries(record).map(([name, each]) => [
      name,
      name === 'type' && typeof each === 'string' ? each.toLowerCase() : lowered(each),
    ]),
  );
}

function choiceOf(config: Record<string, unknown> | null): ToolChoice | null {
  const names = arrayAt(config?.['allowedFunctionNames'] ?? [], 'toolConfig.allowedFunctionNames');
  switch (config?.['mode']) {
    case 'ANY':
      return names.length === 1 && typeof names[0] === 'string' ? { name: names[0] } : 'required';
    case 'NONE':
      return 'none';
    case 'AUTO':
      return 'auto';
    default:
      return null;
  }
}

function formatOf(config: Record<string, unknown>): ResponseFormat | null {
  if (config['responseMimeType'] !== 'application/json') return null;
  const schema = asRecord(config['responseJsonSchema']) ?? schemaOf(config['responseSchema']);
  return schema ? { type: 'json_schema', name: 'reply', schema, strict: false } : { type: 'json_object' };
}
