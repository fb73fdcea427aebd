import { ApiError } from '#server/errors/api-error.ts';
import { FIELD_BYTES_MAX } from '#server/media/bounds.ts';
import { MediaProbe } from '#server/media/media-probe.ts';
import type { Span } from '#server/wire/json.ts';
import { MultipartError, type MultipartPart, MultipartReader } from '#server/wire/multipart.ts';

/** The value of a field, and where it is in the body. */
export type FormValue = { text: string; span: Span };

export type FormSchema = {
  /** The fields whose values are read. */
  fields: readonly string[];
  /** Whether its file is a recording, whose length counts. */
  hasRecording: boolean;
};

/** Reads the fields of a form as its bytes pass, whatever the size of its files. */
export class FormReader {
  readonly values = new Map<string, FormValue>();
  readonly #parts: MultipartReader;
  readonly #schema: FormSchema;
  readonly #recording: MediaProbe | null;
  #part: MultipartPart | null = null;
  #value: Buffer[] = [];
  #valueBytes = 0;
  #files = 0;
  #textBytes = 0;
  /** Where the content of the last file begins. */
  #fileAt = 0;

  constructor(boundary: string, schema: FormSchema) {
    this.#parts = new MultipartReader(boundary);
    this.#schema = schema;
    this.#recording = schema.hasRecording ? new MediaProbe() : null;
  }

  get isComplete(): boolean {
    return this.#parts.isComplete;
  }

  /** Whether the content of a file is being read. */
  get isInFile(): boolean {
    return this.#part !== null && this.#part.filename !== null;
  }

  /** The files so far. */
  get files(): number {
    return this.#files;
  }

  /** The bytes of all values so far. */
  get textBytes(): number {
    return this.#textBytes;
  }

  /**
   * The length of the recording.
   * @param formBytes of the whole form, where that is known before its end has been read.
   */
  durationMs(formBytes: number | null = null): number {
    if (this.#recording === null) return 0;
    const isPartial = this.isInFile && formBytes !== null;
    const size = isPartial ? Math.max(formBytes - this.#fileAt, this.#recording.size) : this.#recording.size;
    return this.#recording.durationMs(size);
  }

  /** Reads the next bytes. @returns an error where they are not those of a form, or a field is invalid. */
  push(chunk: Buffer): ApiError | null {
    try {
      for (const event of this.#parts.push(chunk)) {
        const refusal =
          event.type === 'part'
            ? this.#begin(event.part)
            : event.type === 'content'
              ? this.#add(event.bytes)
              : event.type === 'part_end'
                ? this.#end(event.at)
                : null;
        if (refusal) return refusal;
      }
      return null;
    } catch (error) {
      if (error instanceof MultipartError) return invalidForm(error.message);
      throw error;
    }
  }

  #begin(part: MultipartPart): ApiError | null {
    this.#part = part;
    this.#value = [];
    this.#valueBytes = 0;
    const isFile = part.filename !== null;
    if (isFile) {
      this.#files++;
      this.#fileAt = part.at;
    }
    if (!this.#schema.fields.includes(part.name)) return null;
    if (isFile) return invalidField(part.name, 'must be a value and no file');
    if (!this.values.has(part.name)) return null;
    return new ApiError('duplicate_parameter', {
      message: `The field "${part.name}" occurs twice in the form, so its value is not certain.`,
      param: part.name,
    });
  }

  #add(bytes: Buffer): ApiError | null {
    const { name, filename } = this.#part as MultipartPart;
    if (filename !== null) {
      this.#recording?.push(bytes);
      return null;
    }
    this.#textBytes += bytes.length;
    if (!this.#schema.fields.includes(name)) return null;
    this.#valueBytes += bytes.length;
    if (this.#valueBytes > FIELD_BYTES_MAX)
      return invalidField(name, `must have at most ${FIELD_BYTES_MAX} bytes`);
    this.#value.push(Buffer.from(bytes));
    return null;
  }

  #end(at: number): null {
    const { name, filename, at: start } = this.#part as MultipartPart;
    this.#part = null;
    if (filename === null && this.#schema.fields.includes(name))
      this.values.set(name, { text: Buffer.concat(this.#value).toString(), span: { start, end: at } });
    return null;
  }
}

export const invalidForm = (problem: string): ApiError =>
  new ApiError('invalid_form', { message: `The body is not a valid form: ${problem}.` });

const invalidField = (name: string, problem: string): ApiError =>
  new ApiError('invalid_value', { message: `The field "${name}" ${problem}.`, param: name });
