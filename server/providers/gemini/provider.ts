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

/**
 * Gemini's own API, for clients of that API and for calls that were translated into it: the bytes of requests
 * and replies pass as they are. The model and the form of the reply are in the path. Pure.
 */
export const gemini: Provider = {
  request: requestOf,
  sse: ({ redactor }) => new GeminiSse(redactor),
  json: readGeminiReply,
  parseError,
};

function requestOf({ body, parsed, model }: ProviderCall): ProviderRequest {
  const method = parsed.sse ? 'streamGenerateContent?alt=sse' : 'generateContent';
  return {
    path: `/models/${encodeURIComponent(model)}:${method}`,
    body: body.bytes,
    headers: [],
    unsupported: [],
  };
}

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
