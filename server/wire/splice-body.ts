import { TOKENS_MAX } from '#server/wire/bounds.ts';
import type { TokenLimitMember } from '#db/events/upstream-events.ts';
import { type Span, valueOf } from '#server/wire/json.ts';
import type { Body } from '#server/wire/read-body.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';
import { acquireSlab, releaseSlab, SLACK_BYTES } from '#server/wire/slabs.ts';

const INCLUDE_USAGE = '"stream_options":{"include_usage":true}';
/** The members that may hold a request's own limit; only those of its route were searched for in it. */
const LIMIT_MEMBERS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;

const ADDITIONS_BYTES_MAX =
  INCLUDE_USAGE.length + '"max_completion_tokens":'.length + String(TOKENS_MAX).length + 8;
if (ADDITIONS_BYTES_MAX > SLACK_BYTES) throw new RangeError('the additions to a body exceed its slack');

/**
 * Undoes the changes made in place for an upstream. Must be called before anything reads the bytes for
 * another attempt; the previous attempt has failed by then, so bytes still in flight to it don't matter.
 */
export function restoreBody(body: Body): void {
  const { overwritten } = body;
  if (!overwritten) return;
  overwritten.bytes.copy(body.bytes, overwritten.at);
  delete body.overwritten;
}

/** The changes to a body on its way to the upstream. */
export type BodyChanges = {
  /** The upstream's name of the model; absent: the client's. */
  model?: string;
  /** False: the upstream rejects `stream_options`, and reports usage without being asked. */
  supportsStreamOptions?: boolean;
  /** The limit on each choice, in tokens, that replaces the client's; null keeps the client's. */
  tokenLimit: number | null;
  /** The member that the upstream reads the limit from when the client sent none. */
  tokenLimitMember: TokenLimitMember | 'max_output_tokens';
};

/**
 * The body for the upstream: the client's bytes with the upstream's name of the model, a request for the
 * usage of a streamed reply, and the token limit where a hard quota sets one. The bytes are spliced, never
 * re-serialized, so that everything else stays as the client wrote it. Each call for another upstream
 * invalidates the result of the call before.
 */
export function bodyForUpstream(body: Body, parsed: ParsedRequest, changes: BodyChanges): Buffer {
  restoreBody(body);
  const { bytes } = body;
  const { close, empty } = parsed.scanned;
  const { splices, additions } = changesOf(bytes, parsed, changes);
  if (splices.length === 0 && additions.length === 0) return bytes;
  const addition = Buffer.from(additions.length === 0 ? '' : `${empty ? '' : ','}${additions.join(',')}`);
  if (splices.length === 0 && body.slab) {
    // Only whitespace can follow the closing brace: the brace moves back, into the slack.
    const end = close + addition.length + 1;
    body.overwritten = { at: close, bytes: Buffer.from(bytes.subarray(close, end)) };
    addition.copy(body.slab, close);
    body.slab[end - 1] = 0x7d;
    return body.slab.subarray(0, end);
  }
  return splice(body, [...splices, { start: close, end: close, text: addition.toString() }]);
}

/** A text in place of a span of the body. */
export type Splice = Span & { text: string };

/** The body with texts in place of spans that don't overlap. */
export function splice(body: Body, splices: readonly Splice[]): Buffer {
  const { bytes } = body;
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end, text } of splices.toSorted((left, right) => left.start - right.start)) {
    parts.push(bytes.subarray(at, start), Buffer.from(text));
    at = end;
  }
  parts.push(bytes.subarray(at));
  return body.slab ? joinInSlab(body, parts) : Buffer.concat(parts);
}

function changesOf(
  bytes: Buffer,
  parsed: ParsedRequest,
  { model, supportsStreamOptions = true, tokenLimit, tokenLimitMember }: BodyChanges,
): { splices: Splice[]; additions: string[] } {
  const { members } = parsed.scanned;
  const additions: string[] = [];
  const splices: Splice[] = [];
  const name = members.get('model');
  if (model !== undefined && model !== parsed.model && name)
    splices.push({ ...name, text: JSON.stringify(model) });
  const options = members.get('stream_options');
  if (!supportsStreamOptions) {
    // The member itself is accepted everywhere; only its contents are rejected.
    if (options) splices.push({ ...options, text: 'null' });
  } else if (parsed.sse && !parsed.includeUsage) {
    if (!options) additions.push(INCLUDE_USAGE);
    // The client's other stream options stay; `null` means the same as no member.
    else
      splices.push({
        ...options,
        text: JSON.stringify({ ...(valueOf(bytes, options) as object | null), include_usage: true }),
      });
  }
  if (tokenLimit !== null) {
    const given = LIMIT_MEMBERS.map((member) => members.get(member)).filter((span) => span !== undefined);
    for (const span of given) splices.push({ ...span, text: String(tokenLimit) });
    if (given.length === 0) additions.push(`"${tokenLimitMember}":${tokenLimit}`);
  }
  return { splices, additions };
}

function joinInSlab(body: Body, parts: readonly Buffer[]): Buffer {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  if (body.copy && body.copy.length < size) {
    releaseSlab(body.copy);
    delete body.copy;
  }
  const copy = (body.copy ??= acquireSlab(size));
  let at = 0;
  for (const part of parts) at += part.copy(copy, at);
  return copy.subarray(0, size);
}
