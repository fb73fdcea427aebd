import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { subscribe } from 'node:diagnostics_channel';
import { SLAB_BYTES, SLAB_FROM_BYTES, SLABS_KEPT_MAX } from '#server/bounds.ts';
import { Refusal } from '#server/errors.ts';
import { valueOf } from '#server/relay/json.ts';
import type { Chat } from '#server/relay/parse.ts';

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
  /** The bytes as they came. */
  bytes: Buffer;
  slab: Buffer | null;
};

const ASK_USAGE = Buffer.from('"stream_options":{"include_usage":true}');
const COMMA = Buffer.from(',');
/** Room behind a body in its slab, so that {@link askUsage} can write there without a copy. */
const SLACK_BYTES = ASK_USAGE.length + 8;

const free: Buffer[] = [];
/** The connection that a body in use was written to, by the body's own memory. */
const writtenTo = new WeakMap<ArrayBufferLike, Socket>();

subscribe('undici:client:sendHeaders', (message) => {
  const { request, socket } = message as { request: { body?: unknown }; socket: Socket };
  if (Buffer.isBuffer(request.body) && request.body.buffer.byteLength === SLAB_BYTES) {
    writtenTo.set(request.body.buffer, socket);
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
export function readBody(request: IncomingMessage, response: ServerResponse, maxBytes: number): Promise<Body | Refusal> {
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

function tooLarge(maxBytes: number): Refusal {
  return new Refusal('request_too_large', {
    message: `The body is larger than the ${Math.floor(maxBytes / 1024 / 1024)} MiB that this relay takes.`,
  });
}

function takeSlab(length: number): Buffer {
  if (length + SLACK_BYTES > SLAB_BYTES) return Buffer.allocUnsafeSlow(length + SLACK_BYTES);
  return free.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
}

/** Gives a body's slab back, unless its bytes may still be on their way to an upstream. */
export function releaseBody(body: Body): void {
  const { slab } = body;
  body.slab = null;
  if (!slab || free.length >= SLABS_KEPT_MAX) return;
  const socket = writtenTo.get(slab.buffer);
  writtenTo.delete(slab.buffer);
  if (socket && (socket.destroyed || socket.writableLength > 0)) return;
  free.push(slab);
}

/**
 * The body for the upstream: as it came, and for a streamed reply with usage asked for. The bytes
 * are spliced, never re-serialised, so that everything else stays as the client wrote it.
 */
export function askUsage(body: Body, chat: Chat): Buffer {
  const { bytes } = body;
  if (!chat.sse || chat.asksUsage) return bytes;
  const { members, close, empty } = chat.scanned;
  const options = members.get('stream_options');
  if (options) {
    // The client's other stream options stay; `null` is the same as none.
    const asking = { ...(valueOf(bytes, options) as object | null), include_usage: true };
    const spliced = Buffer.from(JSON.stringify(asking));
    return Buffer.concat([bytes.subarray(0, options.start), spliced, bytes.subarray(options.end)]);
  }
  const addition = empty ? ASK_USAGE : Buffer.concat([COMMA, ASK_USAGE]);
  if (body.slab) {
    // Only blanks can follow the closing brace: it moves back, into the slack.
    addition.copy(body.slab, close);
    body.slab[close + addition.length] = 0x7d;
    return body.slab.subarray(0, close + addition.length + 1);
  }
  return Buffer.concat([bytes.subarray(0, close), addition, bytes.subarray(close)]);
}
