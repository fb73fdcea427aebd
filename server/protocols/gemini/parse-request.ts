import { MODEL_NAME } from '#db/events/parts.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { CHOICES_MAX } from '#server/wire/bounds.ts';
import { asRecord, count } from '#server/wire/counts.ts';
import { valueOf } from '#server/wire/json.ts';
import { type RequestParser, scanRequest } from '#server/wire/request-parser.ts';

const MEMBERS = ['contents', 'generationConfig'];

/** Reads requests of Gemini's `generateContent`, whose path states the model and whether it streams. Pure. */
export function geminiParser(model: string, sse: boolean): RequestParser {
  return (body) => {
    const scanned = scanRequest(body, MEMBERS);
    if (scanned instanceof ApiError) return scanned;
    if (!scanned.members.has('contents')) return missing('contents');
    if (!MODEL_NAME.test(model)) return new ApiError('model_not_found', { param: 'model' });
    const span = scanned.members.get('generationConfig');
    const config = span && asRecord(valueOf(body, span));
    const limit = config?.['maxOutputTokens'];
    const completionLimit = typeof limit === 'number' ? count(limit) : null;
    const choices = Math.max(1, count(config?.['candidateCount']));
    if (choices > CHOICES_MAX)
      return new ApiError('invalid_value', {
        message: `The field "generationConfig.candidateCount" must be at most ${CHOICES_MAX}.`,
        param: 'generationConfig.candidateCount',
      });
    return { model, sse, includeUsage: true, completionLimit, choices, scanned };
  };
}

/** Reads requests of `countTokens`: the contents, or a whole request for contents. */
export function geminiCountParser(model: string): RequestParser {
  return (body) => {
    const names = ['contents', 'generateContentRequest'];
    const scanned = scanRequest(body, names);
    if (scanned instanceof ApiError) return scanned;
    if (!names.some((name) => scanned.members.has(name))) return missing('contents');
    if (!MODEL_NAME.test(model)) return new ApiError('model_not_found', { param: 'model' });
    return { model, sse: false, includeUsage: true, completionLimit: null, choices: 1, scanned };
  };
}

const missing = (param: string): ApiError =>
  new ApiError('missing_required_parameter', { message: `The field "${param}" is missing.`, param });
