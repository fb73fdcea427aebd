/** What the head of an upstream's reply says of what follows. Pure. */
export type ReplyHead = {
  status: number;
  contentType: string;
  retryAfter: string | undefined;
  /** What of the request a provider's package has unsupported, by the names of the members. */
  unsupported: string | undefined;
  /** `refusal`: not a success; `unreadable`: a success in a form that no client of ours expects. */
  form: 'sse' | 'json' | 'refusal' | 'unreadable';
};

/** Names members of a request that its provider had no place for. */
export const UNSUPPORTED_HEADER = 'x-daybook-unsupported';
const NAMES = /^[\w.[\]-]{1,100}(?:, ?[\w.[\]-]{1,100}){0,63}$/;

const namesOf = (text: string | undefined): string | undefined =>
  text !== undefined && NAMES.test(text) ? text : undefined;

type Headers = Record<string, string | string[] | undefined>;

export function readReplyHead(status: number, headers: Headers): ReplyHead {
  const contentType = one(headers['content-type']) ?? '';
  const encoding = one(headers['content-encoding']) ?? 'identity';
  return {
    status,
    contentType,
    retryAfter: one(headers['retry-after']),
    unsupported: namesOf(one(headers[UNSUPPORTED_HEADER])),
    form: formOf(status, contentType, encoding),
  };
}

function formOf(status: number, contentType: string, encoding: string): ReplyHead['form'] {
  // We asked for plain bytes; compressed ones we could neither read nor bound.
  if (encoding !== 'identity') return 'unreadable';
  if (status < 200 || status >= 300) return 'refusal';
  if (/^text\/event-stream\b/i.test(contentType)) return 'sse';
  return /^application\/(?:[\w.+-]+\+)?json\b/i.test(contentType) ? 'json' : 'unreadable';
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/**
 * The header that tells the client what was unsupported, as a pair; a package knows better than what was made for
 * it.
 */
export function unsupportedHeader({ unsupported }: ReplyHead, names: readonly string[]): string[] {
  const told = unsupported ?? names.join(', ');
  return told === '' ? [] : [UNSUPPORTED_HEADER, told];
}
