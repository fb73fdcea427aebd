import type { Usage } from '#db/money.ts';
import { MODEL_NAME } from '#db/events/parts.ts';
import { ApiError } from '#server/errors/api-error.ts';
import {
  arrayAt,
  numberOrNull,
  recordAt,
  reportOthers,
  stringAt,
  Untranslatable,
} from '#server/protocols/fields.ts';
import type { JsonReply, Provider, ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import { asRecord, count } from '#server/wire/counts.ts';
import { NO_FACTS } from '#server/wire/reply-facts.ts';
import { type RequestParser, scanRequest } from '#server/wire/request-parser.ts';
import { parseEmbeddings } from '#server/wire/route-parsers.ts';

/**
 * Gemini's `embedContent` and `batchEmbedContents`: in their own words at upstreams with Gemini's API, else
 * translated into `/v1/embeddings` and back. Pure.
 */

export const EMBEDDING_METHODS = ['embedContent', 'batchEmbedContents'] as const;
type EmbeddingMethod = (typeof EMBEDDING_METHODS)[number];
/** The member that holds the texts. */
const CONTENT = { embedContent: 'content', batchEmbedContents: 'requests' } as const;
const methodOf = ({ parsed }: ProviderCall): EmbeddingMethod =>
  parsed.scanned.members.has('requests') ? 'batchEmbedContents' : 'embedContent';

/** Reads requests of a method, whose path states the model. */
export function geminiEmbeddingParser(model: string, method: EmbeddingMethod): RequestParser {
  const param = CONTENT[method];
  return (body) => {
    const scanned = scanRequest(body, [param]);
    if (scanned instanceof ApiError) return scanned;
    if (!scanned.members.has(param))
      return new ApiError('missing_required_parameter', {
        message: `The field "${param}" is missing.`,
        param,
      });
    if (!MODEL_NAME.test(model)) return new ApiError('model_not_found', { param: 'model' });
    return { model, sse: false, includeUsage: true, completionLimit: 0, choices: 1, scanned };
  };
}

/** A call as its upstream takes it, and what reads the reply. */
type Embedding = { call: ProviderCall; provider: Provider; request: ProviderRequest };

/**
 * @param provider of the upstream.
 * @param hasOwnApi whether it has Gemini's own API.
 * @returns an error where the request can't be one of `/v1/embeddings`; it names the field at fault.
 */
export function embeddingCall(
  call: ProviderCall,
  provider: Provider,
  hasOwnApi: boolean,
): Embedding | ApiError {
  if (hasOwnApi) return { call, provider: { ...provider, json: nativeReply }, request: nativeRequest(call) };
  const losses = new Set<string>();
  try {
    const texts = textsOf(JSON.parse(call.body.bytes.toString()) as Record<string, unknown>, (field) =>
      losses.add(field),
    );
    const bytes = Buffer.from(JSON.stringify({ model: call.model, ...texts, encoding_format: 'float' }));
    const parsed = parseEmbeddings(bytes);
    if (parsed instanceof ApiError) return parsed;
    const translated: ProviderCall = { ...call, body: { bytes, slab: null }, parsed };
    const request = provider.request(translated);
    if (request instanceof ApiError) return request;
    const method = methodOf(call);
    return {
      call: translated,
      provider: { ...provider, json: (reply, each) => translatedReply(provider.json(reply, each), method) },
      request: { ...request, untranslated: [...losses] },
    };
  } catch (error) {
    if (error instanceof Untranslatable) return error.refusal;
    throw error;
  }
}

/** Each request of a batch names its model once more, which is replaced where it has another name. */
function nativeRequest(call: ProviderCall): ProviderRequest {
  const { body, model, parsed } = call;
  const name = `models/${model}`;
  return {
    path: `/models/${encodeURIComponent(model)}:${methodOf(call)}`,
    body: model === parsed.model ? body.bytes : Buffer.from(renamed(body.bytes, name)),
    headers: [],
    unsupported: [],
    isOwn: true,
  };
}

function renamed(bytes: Buffer, model: string): string {
  const request = JSON.parse(bytes.toString()) as Record<string, unknown>;
  const rename = (each: unknown): unknown =>
    asRecord(each)?.['model'] === undefined ? each : { ...asRecord(each), model };
  const { requests } = request;
  const batch = Array.isArray(requests) ? { requests: requests.map(rename) } : {};
  return JSON.stringify({ ...(rename(request) as object), ...batch });
}

const NOTHING = { input: 0, cached: 0, output: 0, reasoning: 0 } as const satisfies Usage;

/** Older models report no usage. */
function nativeReply(bytes: Buffer): JsonReply | null {
  const reply = recordOrNull(bytes);
  if (reply === null) return null;
  const reported = count(asRecord(reply['usageMetadata'])?.['promptTokenCount']);
  return {
    bytes,
    text: null,
    usage: reported > 0 ? { ...NOTHING, input: reported } : null,
    promptUsage: null,
    isImplausible: false,
    facts: NO_FACTS,
    outputBytes: () => 0,
    failed: !('embedding' in reply) && !('embeddings' in reply),
  };
}

function recordOrNull(bytes: Buffer): Record<string, unknown> | null {
  try {
    return asRecord(JSON.parse(bytes.toString()));
  } catch {
    return null;
  }
}

type Texts = { input: string[]; dimensions?: number };

/** The texts of a request, and the one number of dimensions of all. */
function textsOf(request: Record<string, unknown>, report: (field: string) => void): Texts {
  const batch = request['requests'];
  const requests =
    batch === undefined
      ? [{ each: request, at: '' }]
      : arrayAt(batch, 'requests').map((each, index) => ({
          each: recordAt(each, `requests[${index}]`),
          at: `requests[${index}].`,
        }));
  const sizes = new Set<number | null>();
  const input = requests.map(({ each, at }) => {
    reportOthers(each, TRANSLATED, report);
    const config = asRecord(each['embedContentConfig']) ?? each;
    sizes.add(numberOrNull(config['outputDimensionality'] ?? each['outputDimensionality']));
    return textIn(each['content'], `${at}content`);
  });
  if (sizes.size > 1)
    throw new Untranslatable('requests', 'must have the same outputDimensionality everywhere');
  const [dimensions] = sizes;
  return dimensions == null ? { input } : { input, dimensions };
}

const TRANSLATED = new Set(['model', 'content', 'outputDimensionality', 'requests']);

/** The text of a content, whose parts are one text together. */
function textIn(content: unknown, at: string): string {
  const parts = arrayAt(recordAt(content, at)['parts'], `${at}.parts`);
  return parts
    .map((part, index) => stringAt(recordAt(part, `${at}.parts[${index}]`), 'text', `${at}.parts[${index}]`))
    .join('\n');
}

/** @returns null: no client could read it. */
function translatedReply(reply: JsonReply | null, method: EmbeddingMethod): JsonReply | null {
  if (reply === null || reply.failed) return null;
  const data = recordOrNull(reply.bytes)?.['data'];
  if (!Array.isArray(data)) return null;
  const embeddings = data
    .map((each: unknown) => ({ index: count(asRecord(each)?.['index']), values: valuesOf(asRecord(each)) }))
    .toSorted((one, other) => one.index - other.index)
    .map(({ values }) => ({ values }));
  const [embedding] = embeddings;
  const body = method === 'embedContent' ? { embedding } : { embeddings };
  return { ...reply, bytes: Buffer.from(JSON.stringify(body)), text: null };
}

/** Some servers send base64 whatever they are asked for. */
function valuesOf(item: Record<string, unknown> | null): unknown {
  const embedding = item?.['embedding'];
  if (typeof embedding !== 'string') return embedding ?? [];
  const bytes = Buffer.from(embedding, 'base64');
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_, index) => bytes.readFloatLE(index * 4));
}
