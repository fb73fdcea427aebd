import type { ProviderError } from '#server/providers/provider.ts';

/**
 * What a reply says whose status is no success, wherever it says it. All places are looked at for every
 * dialect: gateways pass on what others wrote, a server's framework answers in its own way before the
 * server does, and one shape is never taken for another. Pure.
 *
 * - OpenAI and most: `{"error":{"message","param"}}`; LM Studio and others `{"error":"…"}`.
 * - Google: the same in an array. Cloudflare: `{"errors":[{"message"}]}`.
 * - Mistral, older vLLM: `{"object":"error","message","param"}`; Azure's gateway `{"statusCode","message"}`.
 * - FastAPI: `{"detail":"…"}` or `{"detail":[{"loc":["body","messages"],"msg"}]}`, also as Mistral's message.
 * - OpenRouter: `{"error":{"message":"Provider returned error","metadata":{"raw":"…"}}}`.
 * - A line of text.
 */

/** Errors nested in errors; deeper ones are ignored. */
const DEPTH_MAX = 5;
/** Longer texts are pages or traces, and not meant for who called. */
const TEXT_CHARACTERS_MAX = 500;

/** @returns null where it says nothing that can be read. */
export function parseError(body: Buffer): ProviderError | null {
  const text = body.toString().trim();
  const value = parsed(text);
  if (value !== undefined) return faultIn(value, 0);
  const isLine = text !== '' && text.length <= TEXT_CHARACTERS_MAX && !/^[<{[]|[\p{Cc}\ufffd]/u.test(text);
  return isLine ? { message: text, param: null } : null;
}

function faultIn(value: unknown, depth: number): ProviderError | null {
  if (depth > DEPTH_MAX) return null;
  if (typeof value === 'string') return faultInText(value, depth);
  if (Array.isArray(value))
    return value.length > 0 && value.every(isInvalidField)
      ? faultOfFields(value)
      : faultIn(value[0], depth + 1);
  if (typeof value !== 'object' || value === null) return null;
  const record = value as Record<string, unknown>;
  for (const name of ['error', 'message', 'detail', 'errors', 'msg']) {
    const fault = faultIn(record[name], depth + 1);
    if (fault === null) continue;
    const param =
      fault.param ?? (typeof record['param'] === 'string' && record['param'] !== '' ? record['param'] : null);
    return { message: withCause(fault.message, record['metadata'], depth), param };
  }
  return null;
}

/** Some write an error as JSON into the text of another. */
function faultInText(text: string, depth: number): ProviderError | null {
  if (text.trim() === '') return null;
  const value = /^\s*[{[]/.test(text) ? parsed(text) : undefined;
  return (value === undefined ? null : faultIn(value, depth + 1)) ?? { message: text, param: null };
}

/** A gateway's own words are of little use without those of the provider behind it. */
function withCause(message: string, metadata: unknown, depth: number): string {
  const raw =
    typeof metadata === 'object' && metadata !== null && 'raw' in metadata
      ? faultIn(metadata.raw, depth + 1)
      : null;
  return raw === null ? message : `${message}: ${raw.message}`;
}

type InvalidField = { loc: (string | number)[]; msg: string };

function isInvalidField(value: unknown): value is InvalidField {
  return (
    typeof value === 'object' &&
    value !== null &&
    'msg' in value &&
    typeof value.msg === 'string' &&
    value.msg !== '' &&
    'loc' in value &&
    Array.isArray(value.loc)
  );
}

function faultOfFields(fields: readonly InvalidField[]): ProviderError {
  const nameOf = ({ loc }: InvalidField): string => (loc[0] === 'body' ? loc.slice(1) : loc).join('.');
  const message = fields
    .map((field) => (nameOf(field) === '' ? field.msg : `${nameOf(field)}: ${field.msg}`))
    .join('; ');
  const [first] = fields;
  return { message, param: (first && nameOf(first)) || null };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
