import type { ParsedRequest } from '#server/wire/request-parser.ts';
import { type HeadFacts, headFacts } from '#server/wire/reply-facts.ts';
import type { ProviderRequest } from '#server/providers/provider.ts';
import type { Redactor } from '#server/wire/redactor.ts';

/** What the head of an upstream's reply says about the rest. Pure. */
export type ReplyHead = {
  status: number;
  /** What the client gets: a known one, whatever the upstream wrote; empty for other forms. */
  contentType: string;
  retryAfter: string | undefined;
  /** Names of the request's fields that a provider's package does not support. */
  unsupported: string | undefined;
  facts: HeadFacts;
  /**
   * `json`: read whole, as texts are. `bytes`: relayed as they come. `error`: not a success. `unreadable`: a
   * success in a form that no client of ours expects.
   */
  form: 'sse' | 'json' | 'bytes' | 'error' | 'unreadable';
};

/** Which other replies a call can have; see {@link ParsedRequest}. */
type Replies = ParsedRequest['replies'];

const JSON_TYPE = 'application/json';
const BYTES_TYPE = 'application/octet-stream';
/** Transcripts as text and subtitles. */
const TEXT = /^\s*(?:text\/(?:plain|vtt|srt)|application\/x-subrip)\s*(?:[;,]|$)/i;
const AUDIO = /^\s*(?:audio\/[\w.+-]+|application\/(?:octet-stream|ogg))\s*(?:[;,]|$)/i;
const SSE_TYPE = 'text/event-stream; charset=utf-8';

export type ReplyHeaders = Record<string, string | string[] | undefined>;

/** Names the fields of a request that its provider does not support, and that had no effect. */
export const UNSUPPORTED_HEADER = 'x-daybook-unsupported';
/** Names the fields of a request that its translation into the upstream's protocol has lost. */
const UNTRANSLATED_HEADER = 'x-daybook-untranslated';
const NAMES = /^[\w.[\]-]{1,100}(?:, ?[\w.[\]-]{1,100}){0,63}$/;

const namesOf = (text: string | undefined): string | undefined =>
  text !== undefined && NAMES.test(text) ? text : undefined;

/**
 * @param isSseAsked the form that a reply without a Content-Type is taken for.
 * @param redactor removes the upstream's credentials: a list of names that contains one is dropped.
 */
export function readReplyHead(
  status: number,
  headers: ReplyHeaders,
  isSseAsked: boolean,
  redactor: Redactor,
  replies?: Replies,
): ReplyHead {
  const contentType = firstOf(headers['content-type']) ?? '';
  const usual = isSseAsked ? SSE_TYPE : replies === 'audio' ? BYTES_TYPE : JSON_TYPE;
  const unsupported = namesOf(firstOf(headers[UNSUPPORTED_HEADER]));
  const encoding = firstOf(headers['content-encoding']) ?? 'identity';
  const form = formOf(status, contentType || usual, encoding, replies);
  return {
    status,
    contentType: typeOf(form, contentType || usual),
    retryAfter: firstOf(headers['retry-after']),
    unsupported:
      unsupported !== undefined && redactor.errorText(unsupported) === unsupported ? unsupported : undefined,
    facts: headFacts(headers),
    form,
  };
}

function formOf(status: number, contentType: string, encoding: string, replies: Replies): ReplyHead['form'] {
  if (status < 200 || status >= 300) return 'error';
  // Compressed in a way that isn't known: those that are come decoded.
  if (encoding !== 'identity') return 'unreadable';
  if (/^\s*text\/event-stream\s*(?:[;,]|$)/i.test(contentType)) return 'sse';
  if (replies === 'audio' && AUDIO.test(contentType)) return 'bytes';
  if (replies === 'text' && TEXT.test(contentType)) return 'json';
  return /^\s*application\/(?:[\w.+-]+\+)?json\s*(?:[;,]|$)/i.test(contentType) ? 'json' : 'unreadable';
}

function typeOf(form: ReplyHead['form'], contentType: string): string {
  switch (form) {
    case 'sse':
      return SSE_TYPE;
    case 'json':
      return TEXT.test(contentType) ? shortTypeOf(contentType) : jsonTypeOf(contentType);
    case 'bytes':
      return shortTypeOf(contentType);
    case 'error':
    case 'unreadable':
      return '';
  }
}

/** The type without parameters other than a charset. */
const shortTypeOf = (contentType: string): string => {
  const [type = ''] = /^[\w.+/-]+/.exec(contentType.trim()) ?? [];
  return /charset *= *"?utf-8/i.test(contentType) ? `${type}; charset=utf-8` : type;
};

const jsonTypeOf = (contentType: string): string =>
  /^application\/json; ?charset=utf-8$/i.test(contentType) ? `${JSON_TYPE}; charset=utf-8` : JSON_TYPE;

function firstOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/**
 * The header that lists unsupported fields, as a pair; empty without any. The upstream's own list
 * takes precedence: a package knows its model, and `names` was made for any.
 */
export function unsupportedHeader({ unsupported }: ReplyHead, names: readonly string[]): string[] {
  const list = unsupported ?? names.join(', ');
  return list === '' ? [] : [UNSUPPORTED_HEADER, list];
}

/** The fields that a request for an upstream lacks. */
type LostFields = Pick<ProviderRequest, 'unsupported' | 'untranslated'>;

function lostFieldsHeaders(head: ReplyHead, { unsupported, untranslated = [] }: LostFields): string[] {
  const headers = unsupportedHeader(head, unsupported);
  return untranslated.length === 0 ? headers : [...headers, UNTRANSLATED_HEADER, untranslated.join(', ')];
}

/** The headers of a whole reply of so many bytes, as pairs. */
export function jsonHeaders(head: ReplyHead, bytes: number, request: LostFields): string[] {
  return ['content-length', String(bytes), ...lostFieldsHeaders(head, request)];
}

/** The headers of a streamed reply, as pairs. */
export function sseHeaders(head: ReplyHead, request: LostFields): string[] {
  return ['cache-control', 'no-cache', 'x-accel-buffering', 'no', ...lostFieldsHeaders(head, request)];
}
