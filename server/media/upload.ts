import type { IncomingMessage } from 'node:http';
import type { ClientReply } from '#server/http/client-reply.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { discardRest } from '#server/http/lingering-close.ts';
import { FORM_BYTES_MAX, FORM_HELD_BYTES } from '#server/media/bounds.ts';
import { FormReader, type FormSchema, invalidForm } from '#server/media/form-reader.ts';
import { boundaryOf } from '#server/wire/multipart.ts';
import { type Body, type BodyLimits, type BodyRest, tooLarge } from '#server/wire/read-body.ts';
import { SlabCollector } from '#server/wire/slab-collector.ts';
import { bytesHeldFor, releaseSlab } from '#server/wire/slabs.ts';

/**
 * Receives a form. A small one is received completely. Of a larger one only the beginning is, up to a place
 * within a file where the model is known; the rest streams through to the upstream.
 */

/** A form as far as it was received. @property bytes of the whole form; null: the client states none. */
export type Form = { body: Body; reader: FormReader; boundary: string; bytes: number | null };

export type FormLimits = BodyLimits & { schema: FormSchema };

/**
 * @param limits `maxBytes` is that of the beginning.
 * @returns an error where it is invalid, too large or there is no memory for it; null: the client has
 * disconnected.
 */
export async function readForm(
  request: IncomingMessage,
  response: Pick<ClientReply, 'writeContinue'>,
  { maxBytes, hold, schema }: FormLimits,
): Promise<Form | ApiError | null> {
  const boundary = boundaryOf(request.headers['content-type'] ?? '');
  if (boundary === null) return new ApiError('unsupported_media_type', { message: NOT_A_FORM });
  const declared = request.headers['content-length'];
  const length = declared === undefined ? null : Number(declared);
  if ((length ?? 0) > FORM_BYTES_MAX) return tooLarge(FORM_BYTES_MAX);
  const heldMax = Math.max(maxBytes, FORM_HELD_BYTES);
  let heldBytes = bytesHeldFor(Math.min(length ?? 0, FORM_HELD_BYTES));
  const refusal = hold(heldBytes);
  if (refusal) return refusal;
  if (request.headers.expect !== undefined) response.writeContinue();

  const reader = new FormReader(boundary, schema);
  const upload = new Upload(request, reader);
  const collector = new SlabCollector(heldMax, Math.min(length ?? 0, FORM_HELD_BYTES));
  const refused = (problem: ApiError): ApiError => {
    upload.discard();
    collector.release();
    return problem;
  };
  for (;;) {
    const chunk = await upload.next();
    if (chunk instanceof ApiError) return refused(chunk);
    if (chunk === 'disconnected') {
      collector.release();
      return null;
    }
    if (chunk === null) break;
    const size = collector.size + chunk.length;
    if (size > heldMax)
      return refused(
        new ApiError('invalid_form', {
          message:
            `The field "model" isn't among the first ${Math.floor(heldMax / 1024 / 1024)} MiB of the form. ` +
            'Send it before the file.',
          param: 'model',
        }),
      );
    const needed = bytesHeldFor(size);
    const full = needed > heldBytes ? hold(needed) : null;
    if (full) return refused(full);
    heldBytes = Math.max(heldBytes, needed);
    collector.push(chunk);
    if (size >= FORM_HELD_BYTES && reader.isInFile && reader.values.has('model')) {
      // Bytes of a slab may only be written as they are: a connection isn't tracked for those of a stream.
      const { bytes, slab } = collector.take();
      const own = slab ? Buffer.from(bytes) : bytes;
      if (slab) releaseSlab(slab);
      upload.begin(length === null ? null : length - own.length);
      return { body: { bytes: own, slab: null, rest: upload }, reader, boundary, bytes: length };
    }
  }
  const { bytes, slab } = collector.take();
  return { body: { bytes, slab }, reader, boundary, bytes: bytes.length };
}

const NOT_A_FORM =
  'The request body must be a form. Send it with "Content-Type: multipart/form-data; boundary=…".';

/** The bytes of a form as they come. No more than one chunk waits. */
class Upload implements BodyRest {
  readonly #request: IncomingMessage;
  readonly #reader: FormReader;
  #chunks: Buffer[] = [];
  #state: 'open' | 'ended' | 'disconnected' | 'discarded' = 'open';
  #wake: (() => void) | null = null;
  #isUnread = true;
  #length: number | null = null;
  #size = 0;
  #failure: ApiError | null = null;
  #progress: (() => void) | null = null;
  readonly #take = (chunk: Buffer): void => {
    this.#chunks.push(chunk);
    this.#request.pause();
    this.#wake?.();
  };
  readonly #close = (): void => this.#leave('disconnected');

  constructor(request: IncomingMessage, reader: FormReader) {
    this.#request = request;
    this.#reader = reader;
    request.on('data', this.#take);
    request.on('end', () => this.#leave('ended'));
    request.on('error', this.#close);
    request.on('close', this.#close);
  }

  get isUnread(): boolean {
    return this.#isUnread;
  }

  get length(): number | null {
    return this.#length;
  }

  get failure(): ApiError | null {
    return this.#failure;
  }

  /** The beginning was received: what follows is the rest, of so many bytes. */
  begin(length: number | null): void {
    this.#length = length;
  }

  /** The next bytes, which were found to be those of a form; null: it is complete. */
  async next(): Promise<Buffer | ApiError | 'disconnected' | null> {
    while (this.#chunks.length === 0 && this.#state === 'open') {
      this.#request.resume();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#wake = null;
    const chunk = this.#chunks.shift();
    if (chunk !== undefined) {
      this.#size += chunk.length;
      const refusal = this.#size > FORM_BYTES_MAX ? tooLarge(FORM_BYTES_MAX) : this.#reader.push(chunk);
      return refusal ?? chunk;
    }
    if (this.#state !== 'ended') return 'disconnected';
    return this.#reader.isComplete ? null : invalidForm('it ends before its last boundary');
  }

  watch(progress: () => void): void {
    this.#progress = progress;
  }

  async *chunks(): AsyncGenerator<Buffer, void> {
    this.#isUnread = false;
    for (;;) {
      const chunk = await this.next();
      if (chunk === null) return;
      if (chunk instanceof ApiError) this.#failure = chunk;
      // The upstream must not take the part that it has for a whole form.
      if (chunk instanceof ApiError || chunk === 'disconnected') throw new Error('the form is not complete');
      this.#progress?.();
      yield chunk;
    }
  }

  discard(): void {
    if (this.#state === 'discarded') return;
    this.#leave('discarded');
    this.#chunks = [];
    this.#request.off('data', this.#take);
    discardRest(this.#request);
  }

  #leave(state: 'ended' | 'disconnected' | 'discarded'): void {
    if (this.#state !== 'open' && state !== 'discarded') return;
    this.#state = state;
    this.#wake?.();
  }
}
