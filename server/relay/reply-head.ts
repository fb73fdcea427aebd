/** What the head of an upstream's reply says of what follows. Pure. */
export type ReplyHead = {
  status: number;
  contentType: string;
  retryAfter: string | undefined;
  /** `refusal`: not a success; `unreadable`: a success in a form that no client of ours expects. */
  form: 'sse' | 'json' | 'refusal' | 'unreadable';
};

type Headers = Record<string, string | string[] | undefined>;

export function readReplyHead(status: number, headers: Headers): ReplyHead {
  const contentType = one(headers['content-type']) ?? '';
  const encoding = one(headers['content-encoding']) ?? 'identity';
  return { status, contentType, retryAfter: one(headers['retry-after']), form: formOf(status, contentType, encoding) };
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
