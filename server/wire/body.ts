import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { subscribe } from 'node:diagnostics_channel';
import { SLAB_BYTES, SLAB_FROM_BYTES, SLABS_KEPT_MAX, TOKENS_MAX } from '#server/wire/bounds.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { TokenLimitMember } from '#db/events/upstream-events.ts';
import { valueOf } from '#server/wire/json.ts';
import type { Asked } from '#server/wire/parse.ts';

/**
 * A request's body, received whole. Large ones land in recycled slabs: a fresh buffer for each
 * would make V8 collect all garbage after every 64 MB of them, at a price that grows with the
 * number of live keys.
 *
 * A slab may only be used again when nobody can read it any more. The upstream may answer before
 * it has taken the whole body, so the end of the reply proves nothing: the slab is kept out of use
 * unless the connection that it was written to has handed every byte to the kernel.
 */
export type Body = {
  /** The bytes as they came; see {@link restoreBody}. */
  bytes: Buffer;
  slab: Buffer | null;
  /** Another slab, for what goes to an upstream where members in the middle change. */
  copy?: Buffer;
  /** What stood at the end of the bytes before additions were written over it. */
  overwritten?: { at: number; bytes: Buffer };
};

const ASK_USAGE = '"stream_options":{"include_usage":true}';
/** Where a request's own limit may stand. Of these only those of its route were looked for in it. */
const LIMIT_MEMBERS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;
/** Room behind a body in its slab, so that {@link bodyForUpstream} can write there without a copy. */
const SLACK_BYTES = ASK_USAGE.length + '"max_completion_tokens":'.length + String(TOKENS_MAX).length + 8;

const free: Buffer[] = [];
/** The connections that a body in use was written to, one for each try, by the body's own memory. */
const writtenTo = new WeakMap<ArrayBufferLike, Socket[]>();

subscribe('undici:client:sendHeaders', (message) => {
  const { request, socket } = message as { request: { body?: unknown }; socket: Socket };
  if (Buffer.isBuffer(request.body) && request.body.buffer.byteLength === SLAB_BYTES) {
    const sockets = writtenTo.get(request.body.buffer);
    if (sockets) sockets.push(socket);
    else writtenTo.set(request.body.buffer, [socket]);
  }
});

/** The client went away before its body had come. */
export class ClientGone extends Error {
  override name = 'ClientGone';
}

/**
 * Receives the body. Nothing was read before, so a refused request never pays for its upload.
 * @returns a refusal when there are more than `maxBytes`.
 * @throws {ClientGone} when the client leaves in the middle.
 */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  maxBytes: number,
): Promise<Body | ApiError> {
  const declared = request.headers['content-length'];
  const length = declared === undefined ? undefined : Number(declared);
  if (length !== undefined && length > maxBytes) return Promise.resolve(tooLarge(maxBytes));
  if (request.headers.expect !== undefined) response.writeContinue();
  return new Promise((resolve, reject) => {
    const slab = length !== undefined && length > SLAB_FROM_BYTES ? takeSlab(length) : null;
    let first: Buffer | null = null;
    let more: Buffer[] | null = null;
    let size = 0;
    let done = false;

    request.on('data', (chunk: Buffer) => {
      if (done) return;
      if (slab && size + chunk.length <= (length as number)) chunk.copy(slab, size);
      else if (first === null) first = chunk;
      else (more ??= [first]).push(chunk);
      size += chunk.length;
      if (size > maxBytes) {
        done = true;
        resolve(tooLarge(maxBytes));
      }
    });
    request.on('end', () => {
      if (done) return;
      done = true;
      if (slab) resolve({ bytes: slab.subarray(0, size), slab: slab.length === SLAB_BYTES ? slab : null });
      else resolve({ bytes: more ? Buffer.concat(more, size) : (first ?? Buffer.alloc(0)), slab: null });
    });
    const gone = (): void => {
      if (done) return;
      done = true;
      reject(new ClientGone());
    };
    request.on('error', gone);
    request.on('close', gone);
  });
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError('request_too_large', {
    message: `The body is larger than the ${Math.floor(maxBytes / 1024 / 1024)} MiB that this relay takes.`,
  });
}

function takeSlab(length: number): Buffer {
  if (length + SLACK_BYTES > SLAB_BYTES) return Buffer.allocUnsafeSlow(length + SLACK_BYTES);
  return free.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
}

/** Gives a body's slabs back, unless their bytes may still be on their way to an upstream. */
export function releaseBody(body: Body): void {
  const { slab, copy } = body;
  body.slab = null;
  delete body.copy;
  if (slab) releaseSlab(slab);
  if (copy) releaseSlab(copy);
}

function releaseSlab(slab: Buffer): void {
  const sockets = writtenTo.get(slab.buffer) ?? [];
  writtenTo.delete(slab.buffer);
  if (
    free.length >= SLABS_KEPT_MAX ||
    sockets.some((socket) => socket.destroyed || socket.writableLength > 0)
  )
    return;
  free.push(slab);
}

/**
 * Makes the bytes again what came in, after they were changed in place for an upstream. It has to be
 * done before whatever reads them for another try; the try before has failed by then, and what is still
 * on its way to it does not matter any more.
 */
export function restoreBody(body: Body): void {
  const { overwritten } = body;
  if (!overwritten) return;
  overwritten.bytes.copy(body.bytes, overwritten.at);
  delete body.overwritten;
}

/** What is changed in a body on its way to the upstream. */
export type Changes = {
  /** What the upstream calls the model; absent: as the client does. */
  model?: string;
  /** `refused`: the upstream takes no `stream_options`, and reports usage without being asked. */
  streamOptions?: 'taken' | 'refused';
  /** The limit on each choice, in tokens, that is set in place of the client's; null leaves it. */
  tokenLimit: number | null;
  /** The member that the upstream reads such a limit from where the client sent none. */
  tokenLimitMember: TokenLimitMember | 'max_output_tokens';
};

/**
 * The body for the upstream: as it came, with its own name of the model, and with what only the relay
 * asks for: the usage of a streamed reply, and a limit where a hard quota sets one. The bytes are
 * spliced, never re-serialised, so that everything else stays as the client wrote it. A body may be made
 * for one upstream after another; the one before is no good any more then.
 */
export function bodyForUpstream(body: Body, asked: Asked, changes: Changes): Buffer {
  restoreBody(body);
  const { bytes } = body;
  const { close, empty } = asked.scanned;
  const { splices, additions } = changesOf(bytes, asked, changes);
  if (splices.length === 0 && additions.length === 0) return bytes;
  const addition = Buffer.from(additions.length === 0 ? '' : `${empty ? '' : ','}${additions.join(',')}`);
  if (splices.length === 0 && body.slab) {
    // Only blanks can follow the closing brace: it moves back, into the slack.
    const end = close + addition.length + 1;
    body.overwritten = { at: close, bytes: Buffer.from(bytes.subarray(close, end)) };
    addition.copy(body.slab, close);
    body.slab[end - 1] = 0x7d;
    return body.slab.subarray(0, end);
  }
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end, text } of splices.toSorted((left, right) => left.start - right.start)) {
    parts.push(bytes.subarray(at, start), Buffer.from(text));
    at = end;
  }
  parts.push(bytes.subarray(at, close), addition, bytes.subarray(close));
  return body.slab ? joinInSlab(body, parts) : Buffer.concat(parts);
}

type Splice = { start: number; end: number; text: string };

function changesOf(
  bytes: Buffer,
  asked: Asked,
  { model, streamOptions = 'taken', tokenLimit, tokenLimitMember }: Changes,
): { splices: Splice[]; additions: string[] } {
  const { members } = asked.scanned;
  const additions: string[] = [];
  const splices: Splice[] = [];
  const name = members.get('model');
  if (model !== undefined && model !== asked.model && name)
    splices.push({ ...name, text: JSON.stringify(model) });
  const options = members.get('stream_options');
  if (streamOptions === 'refused') {
    // The member itself is known everywhere; only what is in it is refused.
    if (options) splices.push({ ...options, text: 'null' });
  } else if (asked.sse && !asked.asksUsage) {
    if (!options) additions.push(ASK_USAGE);
    // The client's other stream options stay; `null` is the same as none.
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
  if (size > SLAB_BYTES) return Buffer.concat(parts, size);
  const copy = (body.copy ??= takeSlab(SLAB_FROM_BYTES));
  let at = 0;
  for (const part of parts) at += part.copy(copy, at);
  return copy.subarray(0, size);
}
