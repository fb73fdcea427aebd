import { z } from 'zod';
import { type readBearerSecret, readSecretFromEither } from '#server/access/authenticate.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { GEMINI_ERRORS } from '#server/protocols/gemini/errors.ts';
import { invalidParameter, readQuery } from '#server/read/query.ts';
import { MODELS_PAGE_GEMINI, MODELS_PAGE_MAX, MODELS_PAGE_USUAL } from '#server/relay/bounds.ts';
import { MESSAGES } from '#server/relay/routes.ts';
import { type ErrorFormat, OPENAI_ERRORS } from '#server/wire/error-format.ts';

/**
 * A model that a key can call. `isChat`: by chat completions, and by protocols translated into them.
 * `embeds`: by embeddings.
 */
export type Model = { model: string; upstream: string; isChat: boolean; embeds: boolean };

/** The list of models as one provider's clients expect it. Pure. */
export type ModelFormat = {
  errors: ErrorFormat;
  /** Where these clients send the key; absent: in `authorization` alone. */
  readSecret?: typeof readBearerSecret;
  one(model: Model): object;
  /** @param url with the parameters of the page. @returns an error where one is invalid. */
  list(models: readonly Model[], url: string): object | ApiError;
};

const openAIModel = ({ model, upstream }: Model): object => ({
  id: model,
  object: 'model',
  created: 0,
  owned_by: upstream,
});

export const OPENAI_MODELS: ModelFormat = {
  errors: OPENAI_ERRORS,
  one: openAIModel,
  list: (models) => ({ object: 'list', data: models.map(openAIModel) }),
};

/** With null, and with the epoch, for what Anthropic's reference allows to be unknown. */
const anthropicModel = ({ model }: Model): object => ({
  type: 'model',
  id: model,
  display_name: model,
  created_at: '1970-01-01T00:00:00Z',
  capabilities: null,
  max_input_tokens: null,
  max_tokens: null,
});

/** Other parameters, such as `beta`, are ignored. */
const AnthropicPage = z.object({
  limit: z.coerce.number().int().min(1).max(MODELS_PAGE_MAX).default(MODELS_PAGE_USUAL),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
});

/** A page of the list after or before a model. @returns an error where that model is not in the list. */
function anthropicPage(models: readonly Model[], url: string): object | ApiError {
  const query = readQuery(AnthropicPage, url);
  if (query instanceof ApiError) return query;
  const { limit, after_id: after, before_id: before } = query;
  if (after !== undefined && before !== undefined)
    return invalidParameter('before_id', "can't be combined with after_id");
  const cursor = after ?? before;
  const at = models.findIndex(({ model }) => model === cursor);
  if (cursor !== undefined && at < 0)
    return invalidParameter(after === undefined ? 'before_id' : 'after_id', 'is not in the list of models');
  const from = before === undefined ? at + 1 : Math.max(0, at - limit);
  const to = before === undefined ? from + limit : at;
  const page = models.slice(from, to);
  return {
    data: page.map(anthropicModel),
    has_more: before === undefined ? to < models.length : from > 0,
    first_id: page[0]?.model ?? null,
    last_id: page.at(-1)?.model ?? null,
  };
}

export const ANTHROPIC_MODELS: ModelFormat = {
  errors: MESSAGES.errorFormat,
  readSecret: (headers) => readSecretFromEither(headers, 'x-api-key'),
  one: anthropicModel,
  list: anthropicPage,
};

/** Without the limits on tokens, which the relay doesn't know. */
const geminiModel = ({ model, isChat, embeds }: Model): object => ({
  name: `models/${model}`,
  displayName: model,
  supportedGenerationMethods: [
    ...(isChat ? ['generateContent', 'streamGenerateContent', 'countTokens'] : []),
    ...(embeds ? ['embedContent', 'batchEmbedContents'] : []),
  ],
});

const GeminiPage = z.object({
  pageSize: z.coerce.number().int().min(1).default(MODELS_PAGE_GEMINI),
  pageToken: z.string().optional(),
});

/** A page of the list. The token of the next one is the last model of this one. */
function geminiPage(models: readonly Model[], url: string): object | ApiError {
  const query = readQuery(GeminiPage, url);
  if (query instanceof ApiError) return query;
  const { pageSize, pageToken } = query;
  const at = models.findIndex(({ model }) => model === pageToken);
  if (pageToken !== undefined && at < 0) return invalidParameter('pageToken', 'is not in the list of models');
  const to = at + 1 + Math.min(pageSize, MODELS_PAGE_MAX);
  const page = models.slice(at + 1, to);
  const last = to < models.length ? page.at(-1)?.model : undefined;
  return {
    models: page.map(geminiModel),
    ...(last === undefined ? {} : { nextPageToken: last }),
  };
}

export const GEMINI_MODELS: ModelFormat = {
  errors: GEMINI_ERRORS,
  readSecret: (headers) => readSecretFromEither(headers, 'x-goog-api-key'),
  one: geminiModel,
  list: geminiPage,
};
