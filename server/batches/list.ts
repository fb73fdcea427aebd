import type { StoredKind } from '#db/stored/places.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { sendJson } from '#server/http/respond.ts';
import type { Relay } from '#server/relay/relay.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { type OpenRequest, queryOf } from '#server/stored/serve.ts';

const PAGE_OBJECTS_MAX = 100;
const PAGE_OBJECTS_DEFAULT = 20;

/**
 * Answers with a page of an account's files or batches as their providers described them last: from the
 * route-back table, since a provider lists those of all accounts.
 * @returns the error of a parameter; null: it has answered.
 */
export async function answerList(
  { routeBack }: Pick<Relay, 'routeBack'>,
  kind: StoredKind,
  { key, request, response }: OpenRequest,
): Promise<ApiError | null> {
  const query = queryOf(request.url);
  const limit = Number(query.get('limit') ?? PAGE_OBJECTS_DEFAULT);
  if (!Number.isInteger(limit) || limit < 1) return invalid('limit', 'a whole number from 1 on');
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') return invalid('order', '"asc" or "desc"');
  const after = query.get('after');
  if (after !== null && !isStoredId(after)) return invalid('after', 'the id of the last object before');
  const size = Math.min(limit, PAGE_OBJECTS_MAX);
  const isAscending = order === 'asc';
  const page = { account: key.account, kind, after, isAscending, limit: size + 1 };
  const found = (await routeBack.list(page)).map((text) => JSON.parse(text) as { id: string });
  const data = found.slice(0, size);
  sendJson(response, 200, {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: found.length > size,
  });
  return null;
}

const invalid = (param: string, what: string): ApiError =>
  new ApiError('invalid_value', { message: `The parameter "${param}" must be ${what}.`, param });
