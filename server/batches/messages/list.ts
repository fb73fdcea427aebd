import { ApiError } from '#server/errors/api-error.ts';
import type { Relay } from '#server/relay/relay.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { type OpenRequest, queryOf } from '#server/stored/serve.ts';

const PAGE_OBJECTS_MAX = 1_000;
const PAGE_OBJECTS_DEFAULT = 20;

type Page = {
  data: Record<string, unknown>[];
  has_more: boolean;
  first_id: string | null;
  last_id: string | null;
};

/**
 * A page of an account's message batches as their providers described them last, newest first: from the
 * route-back table, since a provider lists those of all accounts.
 */
export async function listMessageBatches(
  { routeBack }: Pick<Relay, 'routeBack'>,
  { key, request }: OpenRequest,
): Promise<Page | ApiError> {
  const query = queryOf(request.url);
  const limit = Number(query.get('limit') ?? PAGE_OBJECTS_DEFAULT);
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_OBJECTS_MAX)
    return invalid('limit', `a whole number from 1 to ${PAGE_OBJECTS_MAX}`);
  const [after, before] = [query.get('after_id'), query.get('before_id')];
  if (after !== null && before !== null) return invalid('before_id', 'absent where there is "after_id"');
  const from = after ?? before;
  if (from !== null && !isStoredId(from)) return invalid(after === null ? 'before_id' : 'after_id', 'an id');
  const isAscending = before !== null;
  const page = { account: key.account, kind: 'message_batch', after: from, isAscending } as const;
  const found = (await routeBack.list({ ...page, limit: limit + 1 })).map(
    (text) => JSON.parse(text) as Record<string, unknown> & { id: string },
  );
  const data = found.slice(0, limit);
  if (isAscending) data.reverse();
  return {
    data,
    has_more: found.length > limit,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}

const invalid = (param: string, what: string): ApiError =>
  new ApiError('invalid_value', { message: `The parameter "${param}" must be ${what}.`, param });
