import { GeminiRecord } from '#server/providers/gemini/record.ts';
import { GeminiSse } from '#server/providers/gemini/sse.ts';
import type {
  JsonReply,
  Provider,
  ProviderCall,
  ProviderError,
  ProviderRequest,
} from '#server/providers/provider.ts';
import { asRecord } from '#server/wire/counts.ts';
import { scanObject, valueOf } from '#server/wire/json.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';
import { restoreBody, splice, type Splice } from '#server/wire/splice-body.ts';

/**
 * Gemini's own API, for clients of that API and for calls that were translated into it: the bytes of requests
 * and replies pass as they are, except for the limit on the reply under a hard quota. The model and the form
 * of the reply are in the path. Pure.
 */
export const gemini: Provider = {
  request: requestOf,
  sse: ({ redactor }) => new GeminiSse(redactor),
  json: readGeminiReply,
  parseError,
};

function requestOf({ body, parsed, model, tokenLimit }: ProviderCall): ProviderRequest {
  const method = parsed.sse ? 'streamGenerateContent?alt=sse' : 'generateContent';
  restoreBody(body);
  return {
    path: `/models/${encodeURIComponent(model)}:${method}`,
    body: tokenLimit === null ? body.bytes : splice(body, [limitSplice(body.bytes, parsed, tokenLimit)]),
    headers: [],
    unsupported: [],
  };
}

/** Where the limit of a hard quota is written. */
function limitSplice(bytes: Buffer, { scanned }: ParsedRequest, tokenLimit: number): Splice {
  const config = scanned.members.get('generationConfig');
  const limit = `"maxOutputTokens":${tokenLimit}`;
  if (!config) {
    const { close, empty } = scanned;
    return { start: close, end: close, text: `${empty ? '' : ','}"generationConfig":{${limit}}` };
  }
  if (bytes[config.start] !== OPEN_BRACE) return { ...config, text: `{${limit}}` };
  const { members, close, empty } = scanObject(bytes.subarray(config.start, config.end), ['maxOutputTokens']);
  const given = members.get('maxOutputTokens');
  if (!given)
    return { start: config.start + close, end: config.start + close, text: (empty ? '' : ',') + limit };
  return { start: config.start + given.start, end: config.start + given.end, text: String(tokenLimit) };
}

const OPEN_BRACE = 0x7b;
const MEMBERS = ['candidates', 'usageMetadata', 'modelVersion', 'responseId', 'promptFeedback', 'error'];

/** Reads a whole response. @returns null for another text. */
export function readGeminiReply(bytes: Buffer): JsonReply | null {
  try {
    const { members } = scanObject(bytes, MEMBERS);
    const value = (name: string): unknown => {
      const span = members.get(name);
      return span && valueOf(bytes, span);
    };
    const record = new GeminiRecord();
    const candidates = members.get('candidates');
    const response = Object.fromEntries(
      MEMBERS.filter((name) => members.has(name)).map((name) => [name, value(name)]),
    );
    record.report(response['usageMetadata']);
    record.state(response);
    const { usage, promptUsage, isImplausible, facts } = record;
    return {
      bytes,
      text: null,
      usage,
      promptUsage,
      isImplausible,
      facts,
      outputBytes: () => (candidates ? candidates.end - candidates.start : 0),
      failed: candidates === undefined && asRecord(response['error']) !== null,
    };
  } catch {
    return null;
  }
}

/** `{"error":{"code","message","status"}}`, also as the only element of an array. */
function parseError(body: Buffer): ProviderError | null {
  try {
    const value = JSON.parse(body.toString()) as unknown;
    const reply = asRecord(Array.isArray(value) ? (value as unknown[])[0] : value);
    const message = asRecord(reply?.['error'])?.['message'];
    return typeof message === 'string' && message !== '' ? { message, param: null } : null;
  } catch {
    return null;
  }
}
