import type { z } from 'zod';
import { Names, NamesQuery, SearchQuery, SearchResults } from '#server/contract/reads/search.ts';
import { readEmails } from '#db/members/members.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ANY_ROLE, type ApiRoute, memberRoute, scopeOfMember } from '#server/dashboard/gate.ts';
import { search } from '#server/dashboard/search/search.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { readQuery } from '#server/read/query.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';

/**
 * Routes for names: lists, reports, feed and events contain ids alone, and a page asks for the names of those
 * that it shows. From memory, so that no page loads a directory.
 */
export function searchRoutes(dashboard: Dashboard): ApiRoute[] {
  return [
    memberRoute(
      'get',
      '/api/v1/names',
      ANY_ROLE,
      { query: NamesQuery, reply: Names },
      async ({ request }, who) => {
        const query = readQuery(NamesQuery, request.url);
        return query instanceof ApiError ? query : namesOf(dashboard, who, query);
      },
    ),
    memberRoute(
      'post',
      '/api/v1/search',
      ANY_ROLE,
      { body: SearchQuery, reply: SearchResults },
      async ({ body }, who) => {
        const data = await withReadSlot(dashboard.reads, holderOf(who), () => search(dashboard, who, body));
        return data instanceof ApiError ? data : ({ object: 'list', data } satisfies SearchResults);
      },
    ),
  ];
}

/** The names that the member may see; other ids are missing. */
async function namesOf(
  { relay: { readModel }, signIn }: Dashboard,
  who: SignedIn,
  { keys, accounts, members }: z.output<typeof NamesQuery>,
): Promise<Names> {
  const { account: own } = scopeOfMember(who);
  const isVisible = (account: string): boolean => own === null || account === own;
  const named = <T extends { id: string; name: string }>(
    ids: readonly string[],
    find: (id: string) => T | undefined,
    accountOf: (each: T) => string,
  ): Record<string, string> =>
    Object.fromEntries(
      ids.flatMap((id) => {
        const each = find(id);
        return each && isVisible(accountOf(each)) ? [[id, each.name] as const] : [];
      }),
    );
  const visible = members.filter((id) => isVisible(readModel.member(id)?.account ?? ''));
  const emails = visible.length === 0 || who.role === 'auditor' ? [] : await readEmails(signIn.pool, visible);
  return {
    object: 'names',
    keys: named(
      keys,
      (id) => readModel.key(id),
      ({ account }) => account,
    ),
    accounts: named(
      accounts,
      (id) => readModel.account(id),
      ({ id }) => id,
    ),
    members: Object.fromEntries(emails),
  };
}
