import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { FILE_BYTES_MAX, FORM_BYTES_MAX, TRANSFER_IDLE_MS } from '#server/batches/bounds.ts';
import { holderOf } from '#server/batches/find-holder.ts';
import { IdleTimeout } from '#server/batches/idle-timeout.ts';
import { readInputLine } from '#server/batches/input-line.ts';
import { readDescription } from '#server/batches/description.ts';
import { fileTooLarge, UploadForm } from '#server/batches/upload-form.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Relay } from '#server/relay/relay.ts';
import { exchange } from '#server/stored/exchange.ts';
import { type OpenRequest, sendReply } from '#server/stored/serve.ts';
import { boundaryOf } from '#server/wire/multipart.ts';

/**
 * Passes the upload of a file on to an upstream that serves the model of its first line, chunk by chunk. What
 * is held in memory is the form up to the end of that line.
 * @returns the error that the client is to be sent; null: it has its reply, or has disconnected.
 */
export async function uploadFile(
  relay: Relay,
  { key, request, response, open }: OpenRequest,
): Promise<ApiError | null> {
  const { 'content-type': contentType = '', 'content-length': declared, expect } = request.headers;
  const boundary = boundaryOf(contentType);
  if (boundary === null)
    return new ApiError('unsupported_media_type', {
      message: 'A file is uploaded as a form. Send it with "Content-Type: multipart/form-data; boundary=…".',
    });
  if (Number(declared ?? 0) > FILE_BYTES_MAX + FORM_BYTES_MAX) return fileTooLarge();
  if (expect !== undefined) response.writeContinue();

  const upload = new Upload(request, new UploadForm(boundary));
  using idle = new IdleTimeout(TRANSFER_IDLE_MS);
  try {
    const first = await upload.readFirstLine((bytes) => open.holdBody(bytes));
    if (first === null || first instanceof ApiError) return first;
    const line = readInputLine(first, 1);
    if (line instanceof ApiError) return line;
    const holder = holderOf(relay, key, line);
    if (holder instanceof ApiError) return holder;
    const { pool, target } = holder;
    const headers = [
      'content-type',
      contentType,
      ...(declared === undefined ? [] : ['content-length', declared]),
    ];
    const body = Readable.from(upload.chunks(idle), { objectMode: false });
    const reply = await exchange(
      { upstream: target.upstream, pool, open, response },
      { method: 'POST', path: '/files', headers, body },
      idle.signal,
    );
    if (upload.refusal) return upload.refusal;
    if (reply === null) return null;
    if (reply instanceof ApiError) return reply.status === 404 ? WITHOUT_FILES : reply;
    const described = readDescription(reply);
    if (described === null) return new ApiError('upstream_error');
    const place = { upstream: target.upstream.name, credential: pool.credential };
    await relay.routeBack.keep({ account: key.account, kind: 'file', ...described, ...place });
    sendReply(response, reply);
    return null;
  } finally {
    upload.leave();
  }
}

const WITHOUT_FILES = new ApiError('route_not_found', {
  message: "The upstream of this file's model has no files and batches. Use another model.",
});

/** The bytes of an upload, first those that were held. */
class Upload {
  readonly #form: UploadForm;
  readonly #source: AsyncIterator<Buffer>;
  #held: Buffer[] = [];
  #isOver = false;
  /** Why the upload must not be completed. */
  refusal: ApiError | null = null;

  constructor(request: IncomingMessage, form: UploadForm) {
    this.#form = form;
    // A refused client must still receive its reply.
    this.#source = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  }

  /** @param hold takes the memory for so many bytes. @returns null: the client has disconnected. */
  async readFirstLine(hold: (bytes: number) => ApiError | null): Promise<Buffer | ApiError | null> {
    let bytes = 0;
    for (;;) {
      const chunk = await this.#next().catch(() => undefined);
      if (chunk === undefined) return null;
      if (chunk === null) return this.refusal ?? NO_LINE;
      bytes += chunk.length;
      this.#held.push(chunk);
      const full = hold(bytes);
      if (full) return full;
      const line = this.#form.firstLine;
      if (line !== null) return line.length === 0 ? NO_LINE : line;
    }
  }

  /** All bytes. Breaks off where the form is refused. */
  async *chunks(idle: IdleTimeout): AsyncGenerator<Buffer> {
    for (const chunk of this.#held.splice(0)) yield chunk;
    for (;;) {
      const chunk = await this.#next();
      idle.touch();
      if (this.refusal) throw new Error('the upload is refused');
      if (chunk === null) return;
      yield chunk;
    }
  }

  /** Stops reading, when the chunk that is awaited has come. */
  leave(): void {
    this.#source.return?.().catch(() => {});
  }

  /** @returns null: the upload is over, or refused. @throws where the client disconnects. */
  async #next(): Promise<Buffer | null> {
    if (this.#isOver) return null;
    const { done, value } = await this.#source.next();
    this.refusal ??= done === true ? this.#form.end() : this.#form.push(value);
    this.#isOver = done === true || this.refusal !== null;
    return this.#isOver ? null : value;
  }
}

const NO_LINE = new ApiError('invalid_value', { message: 'The file is empty.', param: 'file' });
