import type {
  AssistantPart,
  Conversation,
  ReportLoss,
  Tool,
  ToolResult,
  Turn,
  UserPart,
} from '#server/protocols/conversation.ts';
import { inputOf, parametersOf } from '#server/protocols/custom-tools.ts';
import { parallelOf, thinkingOf } from '#server/protocols/gemini/generation.ts';

/** Conversations as requests of Gemini's `generateContent`. Pure. */

export type GeminiRequestOptions = {
  model: string;
  /** The limit on the reply, in tokens; null: none. */
  tokenLimit: number | null;
};

/** Models that refuse a call of theirs without a signature, and what Google names to send instead. */
const NEEDS_SIGNATURES = /gemini-(?:[3-9]|\d\d)/;
const NO_SIGNATURE = 'skip_thought_signature_validator';

type Content = { role: 'user' | 'model'; parts: object[] };

/** @returns the request as JSON. */
export function writeGeminiRequest(
  conversation: Conversation,
  { model, tokenLimit }: GeminiRequestOptions,
  report: ReportLoss,
): string {
  const { turns, tools, toolChoice, stop, format, temperature, topP } = conversation;
  parallelOf(conversation, report);
  const firstOther = turns.findIndex(({ role }) => role !== 'system');
  // Instructions alone ask for something, too.
  const instructions = firstOther < 0 ? [] : turns.slice(0, firstOther);
  const thinkingConfig = thinkingOf(conversation.reasoningEffort, model);
  const generationConfig = {
    ...(temperature !== null && { temperature }),
    ...(topP !== null && { topP }),
    ...(tokenLimit !== null && { maxOutputTokens: tokenLimit }),
    ...(stop.length > 0 && { stopSequences: stop }),
    ...(format && { responseMimeType: 'application/json' }),
    ...(format?.type === 'json_schema' && { responseJsonSchema: format.schema }),
    ...(thinkingConfig && { thinkingConfig }),
  };
  return JSON.stringify({
    ...(instructions.length > 0 && { systemInstruction: { parts: instructions.flatMap(instructionParts) } }),
    ...(tools.length > 0 && { tools: [{ functionDeclarations: tools.map(declarationOf) }] }),
    ...(tools.length > 0 &&
      toolChoice !== null && { toolConfig: { functionCallingConfig: choiceOf(toolChoice) } }),
    ...(Object.keys(generationConfig).length > 0 && { generationConfig }),
    contents: contentsOf(turns.slice(instructions.length), NEEDS_SIGNATURES.test(model), report),
  });
}

const instructionParts = (turn: Turn): object[] =>
  turn.role === 'system' ? turn.parts.map(({ text }) => ({ text })) : [];

/** Turns of one role in a row are one content. */
function contentsOf(turns: readonly Turn[], needsSignatures: boolean, report: ReportLoss): Content[] {
  const contents: Content[] = [];
  const names = new Map<string, string>();
  for (const turn of turns) {
    const role = turn.role === 'assistant' ? 'model' : 'user';
    const parts = partsOf(turn, names, needsSignatures, report);
    const last = contents.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else if (parts.length > 0) contents.push({ role, parts });
  }
  return contents;
}

/** @param names the name of each call by its id, which results need. */
function partsOf(
  turn: Turn,
  names: Map<string, string>,
  needsSignatures: boolean,
  report: ReportLoss,
): object[] {
  switch (turn.role) {
    case 'system':
      return instructionParts(turn);
    case 'user':
      return turn.parts.map((part) => partOf(part, report));
    case 'assistant':
      for (const part of turn.parts) if (part.type === 'tool_call') names.set(part.id, part.name);
      return assistantParts(turn.parts, needsSignatures, report);
    case 'tool':
      return turn.results.flatMap((result) => resultParts(result, names, report));
  }
}

/** A signature without a text is that of the call behind it. */
function assistantParts(
  parts: readonly AssistantPart[],
  needsSignatures: boolean,
  report: ReportLoss,
): object[] {
  const written: object[] = [];
  let waiting: string | null = null;
  let hasCall = false;
  const flush = (): void => {
    if (waiting !== null) written.push({ text: '', thoughtSignature: waiting });
    waiting = null;
  };
  for (const part of parts) {
    if (part.type === 'tool_call') {
      const { id, name } = part;
      const args = JSON.parse(inputOf(part)) as unknown;
      // Of parallel calls the first has the signature.
      const signature: string | null = waiting ?? (needsSignatures && !hasCall ? NO_SIGNATURE : null);
      waiting = null;
      hasCall = true;
      written.push({
        functionCall: { id, name, args },
        ...(signature !== null && { thoughtSignature: signature }),
      });
      continue;
    }
    flush();
    if (part.type === 'text') written.push({ text: part.text });
    else if (part.type === 'redacted_reasoning' || part.signature === null) report('reasoning');
    else if (part.text === '') waiting = part.signature;
    else written.push({ text: part.text, thought: true, thoughtSignature: part.signature });
  }
  flush();
  return written;
}

/** A result has an object, whose usual member for a text is `output`. Its files follow it. */
function resultParts(
  { id, parts }: ToolResult,
  names: ReadonlyMap<string, string>,
  report: ReportLoss,
): object[] {
  const output = parts
    .filter((part) => part.type === 'text')
    .map(({ text }) => text)
    .join('\n');
  const files = parts.filter((part) => part.type !== 'text');
  return [
    { functionResponse: { id, name: names.get(id) ?? 'unknown', response: { output } } },
    ...(files.length === 0 ? [] : [{ text: `Files of the result of ${id}:` }]),
    ...files.map((part) => partOf(part, report)),
  ];
}

function partOf(part: UserPart, report: ReportLoss): object {
  switch (part.type) {
    case 'text':
      return { text: part.text };
    case 'image':
      if (part.detail !== null && part.detail !== 'auto') report('image.detail');
      return filePart(part.url, 'image/jpeg');
    case 'audio':
      return { inlineData: { mimeType: `audio/${part.format}`, data: part.data } };
    case 'document':
      return filePart(part.url, 'application/pdf');
  }
}

/** @param type that of a file at an address, where its ending doesn't say it. */
function filePart(url: string, type: string): object {
  const [head, mimeType] = /^data:([^;,]+)(?:;[^;,]+)*;base64,/.exec(url.slice(0, 300)) ?? [];
  if (head !== undefined) return { inlineData: { mimeType, data: url.slice(head.length) } };
  const ending = /\.(png|webp|gif|heic|pdf)(?:$|[?#])/i.exec(url)?.[1]?.toLowerCase();
  const known = ending === undefined ? type : ending === 'pdf' ? 'application/pdf' : `image/${ending}`;
  return { fileData: { fileUri: url, mimeType: known } };
}

function declarationOf(tool: Tool): object {
  return {
    name: tool.name,
    ...(tool.description !== null && { description: tool.description }),
    parametersJsonSchema: parametersOf(tool),
  };
}

function choiceOf(choice: NonNullable<Conversation['toolChoice']>): object {
  if (typeof choice === 'object') return { mode: 'ANY', allowedFunctionNames: [choice.name] };
  return { mode: { auto: 'AUTO', none: 'NONE', required: 'ANY' }[choice] };
}
