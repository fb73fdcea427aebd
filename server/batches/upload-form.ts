import {
  FILE_BYTES_MAX,
  FORM_BYTES_MAX,
  FORM_VALUE_BYTES_MAX,
  INPUT_LINE_BYTES_MAX,
} from '#server/batches/bounds.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { type MultipartEvent, MultipartError, MultipartReader } from '#server/wire/multipart.ts';

const LINE_FEED = 0x0a;

/**
 * Reads the upload of a file while its bytes pass: its purpose, its size, and its first line, whose model
 * decides on its upstream. Pure.
 */
export class UploadForm {
  readonly #reader: MultipartReader;
  /** The name of the part that is being read. */
  #part: string | null = null;
  #purpose = '';
  #line: Buffer[] = [];
  #lineBytes = 0;
  #isLineComplete = false;
  #fileBytes = 0;
  #formBytes = 0;
  #files = 0;

  constructor(boundary: string) {
    this.#reader = new MultipartReader(boundary);
  }

  /** The first line of the file that isn't blank, once it is complete; null: it isn't yet. */
  get firstLine(): Buffer | null {
    return this.#isLineComplete ? Buffer.concat(this.#line) : null;
  }

  /** Reads a chunk. @returns the error of a form that must not go on. */
  push(chunk: Buffer): ApiError | null {
    try {
      for (const event of this.#reader.push(chunk)) {
        const refusal = this.#take(event);
        if (refusal) return refusal;
      }
    } catch (error) {
      if (!(error instanceof MultipartError)) throw error;
      return new ApiError('invalid_value', { message: `The body is not a valid form: ${error.message}.` });
    }
    return null;
  }

  /** The error of the form at the end of its bytes. */
  end(): ApiError | null {
    if (!this.#reader.isComplete)
      return new ApiError('invalid_value', { message: 'The body is not a valid form: it breaks off.' });
    if (this.#files === 0) return missing('file');
    return this.#purpose === '' ? missing('purpose') : null;
  }

  #take(event: MultipartEvent): ApiError | null {
    switch (event.type) {
      case 'part':
        this.#part = event.part.name;
        if (event.part.name === 'purpose' && this.#purpose !== '') return twice('purpose');
        return event.part.name === 'file' && ++this.#files > 1 ? twice('file') : null;
      case 'content':
        return this.#part === 'file' ? this.#takeFile(event.bytes) : this.#takeValue(event.bytes);
      case 'part_end':
        if (this.#part === 'file') this.#isLineComplete = true;
        return this.#part === 'purpose' ? checkPurpose(this.#purpose) : null;
      case 'end':
        return null;
    }
  }

  #takeValue(bytes: Buffer): ApiError | null {
    this.#formBytes += bytes.length;
    if (this.#formBytes > FORM_BYTES_MAX) return new ApiError('request_too_large');
    if (this.#part === 'purpose') this.#purpose += bytes.toString('latin1');
    return this.#purpose.length > FORM_VALUE_BYTES_MAX ? checkPurpose(this.#purpose) : null;
  }

  #takeFile(bytes: Buffer): ApiError | null {
    this.#fileBytes += bytes.length;
    if (this.#fileBytes > FILE_BYTES_MAX) return fileTooLarge();
    let rest = bytes;
    while (!this.#isLineComplete && rest.length > 0) {
      const end = rest.indexOf(LINE_FEED);
      const piece = end < 0 ? rest : rest.subarray(0, end);
      this.#line.push(Buffer.from(piece));
      this.#lineBytes += piece.length;
      if (this.#lineBytes > INPUT_LINE_BYTES_MAX) return lineTooLong(1);
      if (end < 0) break;
      rest = rest.subarray(end + 1);
      if (Buffer.concat(this.#line).toString('latin1').trim() === '') this.#line = [];
      else this.#isLineComplete = true;
    }
    return null;
  }
}

export const fileTooLarge = (): ApiError =>
  new ApiError('request_too_large', {
    message: `The file exceeds ${FILE_BYTES_MAX / 1024 ** 2} MiB. Split it into several batches.`,
    param: 'file',
  });

export const lineTooLong = (number: number): ApiError =>
  new ApiError('request_too_large', {
    message: `Line ${number} of the file exceeds ${INPUT_LINE_BYTES_MAX / 1024 ** 2} MiB.`,
    param: 'file',
  });

/** Files for other purposes can be referred to by calls of any account that has the same credential. */
function checkPurpose(purpose: string): ApiError | null {
  if (purpose === 'batch') return null;
  return new ApiError('invalid_value', {
    message: 'Files are uploaded for batches here. Send the field "purpose" with the value "batch".',
    param: 'purpose',
  });
}

const missing = (param: string): ApiError =>
  new ApiError('missing_required_parameter', { message: `The form has no field "${param}".`, param });

const twice = (param: string): ApiError =>
  new ApiError('duplicate_parameter', { message: `The form has the field "${param}" twice.`, param });
