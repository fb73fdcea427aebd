import { MODEL_NAME } from '#db/events/parts.ts';
import type { Usage } from '#db/money.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { IMAGE_TOKENS_TYPICAL } from '#server/limits/bounds.ts';
import { AUDIO_TOKENS_PER_SECOND } from '#server/media/bounds.ts';
import type { FormReader, FormSchema } from '#server/media/form-reader.ts';
import { BYTES_PER_TOKEN, CHOICES_MAX } from '#server/wire/bounds.ts';
import { NO_PARTS } from '#server/wire/prompt-parts.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';

/** How requests that are forms are read: audio in, and images in. */

/** The requests of a route. */
export type FormSpec = {
  schema: FormSchema;
  /** @param bytes of the whole form; null: the client doesn't state them. */
  parse(reader: FormReader, boundary: string, bytes: number | null): ParsedRequest | ApiError;
};

const NOTHING = { members: new Map(), close: 0, empty: true, parts: NO_PARTS } as const;
const NO_TOKENS: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };

const invalid = (param: string, problem: string): ApiError =>
  new ApiError('invalid_value', { message: `The field "${param}" ${problem}.`, param });

/** The parts of all such requests. */
function formRequest(
  { values }: FormReader,
  boundary: string,
): Pick<ParsedRequest, 'model' | 'form' | 'includeUsage' | 'completionLimit' | 'scanned'> | ApiError {
  const model = values.get('model');
  if (model === undefined)
    return new ApiError('missing_required_parameter', {
      message: 'The field "model" is missing.',
      param: 'model',
    });
  if (model.text === '') return invalid('model', 'must be a string that is not empty');
  if (!MODEL_NAME.test(model.text)) return new ApiError('model_not_found', { param: 'model' });
  const form = { boundary, model: model.span };
  return { model: model.text, form, includeUsage: true, completionLimit: null, scanned: NOTHING };
}

/** A value that is true or false, as clients write it in a form. */
function flag({ values }: FormReader, name: string): boolean | ApiError {
  const text = values.get(name)?.text.toLowerCase();
  if (text === undefined || text === '' || text === 'false' || text === '0') return false;
  return text === 'true' || text === '1' ? true : invalid(name, 'must be true or false');
}

const noFile = (param: string): ApiError =>
  new ApiError('missing_required_parameter', { message: `The file "${param}" is missing.`, param });

/** Transcriptions and translations: charged by the length of the recording, or by tokens. */
export const RECORDING: FormSpec = {
  schema: { fields: ['model', 'stream'], hasRecording: true },
  parse(reader, boundary, bytes) {
    const request = formRequest(reader, boundary);
    if (request instanceof ApiError) return request;
    if (reader.files === 0) return noFile('file');
    const sse = flag(reader, 'stream');
    if (sse instanceof ApiError) return sse;
    const expectedMs = reader.durationMs(bytes);
    return {
      ...request,
      sse,
      choices: 1,
      replies: 'text',
      sized: {
        promptTokens: audioTokens(expectedMs),
        units: { media_hour: expectedMs },
        unreported(priced, output) {
          const ms = reader.durationMs();
          const input = audioTokens(ms);
          const tokens = priced.includes('media_hour') ? NO_TOKENS : { ...NO_TOKENS, input, output };
          const details = tokens.input > 0 ? { media_ms: ms, audio_input_tokens: input } : { media_ms: ms };
          return { usage: { ...tokens, details }, source: 'estimated' };
        },
      },
    };
  },
};

const audioTokens = (ms: number): number => Math.ceil((ms * AUDIO_TOKENS_PER_SECOND) / 1_000);

/** Edits and variations of images, which are reserved by their number. */
export const IMAGE_FORM: FormSpec = {
  schema: { fields: ['model', 'n', 'stream'], hasRecording: false },
  parse(reader, boundary) {
    const request = formRequest(reader, boundary);
    if (request instanceof ApiError) return request;
    if (reader.files === 0) return noFile('image');
    const sse = flag(reader, 'stream');
    if (sse instanceof ApiError) return sse;
    if (sse) return invalid('stream', 'must be false: images are not streamed here');
    const count = reader.values.get('n')?.text ?? '1';
    const choices = /^\d{1,3}$/.test(count) ? Number(count) : 0;
    if (choices < 1 || choices > CHOICES_MAX)
      return invalid('n', `must be a whole number from 1 to ${CHOICES_MAX}`);
    const promptTokens = (): number =>
      Math.ceil(reader.textBytes / BYTES_PER_TOKEN) + reader.files * IMAGE_TOKENS_TYPICAL;
    return {
      ...request,
      sse: false,
      choices,
      makesImages: true,
      sized: {
        promptTokens: promptTokens(),
        units: { image: choices },
        unreported: (_, output) => ({
          usage: { ...NO_TOKENS, input: promptTokens(), output },
          source: 'estimated',
        }),
      },
    };
  },
};
