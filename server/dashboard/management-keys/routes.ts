import {
  CreateManagementKey,
  CreatedManagementKey,
  ManagementKeyList,
  type ManagementKeyRow,
} from '#server/contract/keys.ts';
import { ChangeReply, PageQuery } from '#server/contract/parts.ts';
import { type ManagementKey, managementKeyState } from '#db/fold/management-key.ts';
import { ManagementKeyControl } from '#server/control/management-key-control.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ANY_ROLE, type ApiRoute, CALLERS, memberRoute, scopeOfMember } from '#server/dashboard/gate.ts';
import { newestFirst } from '#server/dashboard/newest-first.ts';
import { readQuery } from '#server/read/query.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { unavailable } from '#server/read/store.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';

const STALE = unavailable('Key data');
const NOT_FOUND = new ApiError('not_found');

/**
 * Routes for management keys: members manage those of their account, administrators all; auditors read them.
 * Management keys can't use them, so that no key gives itself further scopes.
 */
export function managementKeyRoutes(dashboard: Dashboard): ApiRoute[] {
  const { readModel, pepper } = dashboard.relay;

  const row = (key: ManagementKey, now: Date): ManagementKeyRow => ({
    id: key.id,
    name: key.name,
    last4: key.secret.last4,
    scopes: [...key.scopes],
    account: key.account,
    account_name: key.account === null ? null : (readModel.account(key.account)?.name ?? null),
    state: managementKeyState(key, now),
    created_at: key.createdAt.toISOString(),
    created_by: key.createdBy,
    expires_at: key.expiresAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
  });
  const sees = (who: Caller, key: ManagementKey): boolean => {
    const { account } = scopeOfMember(who);
    return account === null || key.account === account;
  };

  return [
    memberRoute(
      'get',
      '/api/v1/management-keys',
      ANY_ROLE,
      { query: PageQuery, reply: ManagementKeyList },
      async ({ request }, who) => {
        if (!readModel.isCurrent()) return STALE;
        const query = readQuery(PageQuery, request.url);
        if (query instanceof ApiError) return query;
        const now = new Date(readModel.nowMs());
        const page = newestFirst([...readModel.managementKeys.all], (key) => sees(who, key), query);
        if (page instanceof ApiError) return page;
        return {
          object: 'list',
          data: page.rows.map((key) => row(key, now)),
          rows_omitted: page.omitted,
          next: page.next,
        } satisfies ManagementKeyList;
      },
    ),

    memberRoute(
      'post',
      '/api/v1/management-keys',
      CALLERS,
      { body: CreateManagementKey, reply: CreatedManagementKey },
      async ({ body }, who) => {
        const { name, scopes, account = who.ownAccount, expires_at: expires } = body;
        if (who.role === 'member' && account !== who.ownAccount)
          return new ApiError('not_found', { param: 'account' });
        if (account !== null && !readModel.account(account))
          return new ApiError('not_found', { param: 'account' });
        const expiresAt = expires === undefined ? null : new Date(expires);
        const ref = account === null ? null : { id: account };
        const made = await makeChange(dashboard, who, (control) =>
          new ManagementKeyControl(control).create(pepper, { name, scopes, account: ref, expiresAt }),
        );
        if (made instanceof ApiError) return made;
        const { id, secret, event } = made;
        return { object: 'management_key', id, secret, event } satisfies CreatedManagementKey;
      },
    ),

    memberRoute(
      'post',
      '/api/v1/management-keys/:management_key/revoke',
      CALLERS,
      { reply: ChangeReply },
      ({ params }, who) => {
        const key = readModel.managementKeys.get(params['management_key'] ?? '');
        if (!key || !sees(who, key)) return Promise.resolve(NOT_FOUND);
        return makeChange(dashboard, who, (control) => new ManagementKeyControl(control).revoke(key.id));
      },
    ),
  ];
}
