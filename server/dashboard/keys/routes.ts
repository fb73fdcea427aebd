import { ChangeReply } from '#server/contract/parts.ts';
import {
  ChangeKey,
  CheckKey,
  CreateKey,
  CreatedKey,
  KeyCheckResult,
  KeyList,
  KeyRow,
  KeysQuery,
  RotateKey,
} from '#server/contract/keys.ts';
import { isIP } from 'node:net';
import type { Key } from '#db/fold/key.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { findKey, makeChange } from '#server/dashboard/change.ts';
import { type ApiRoute, CALLERS, ANY_ROLE, route, scopeOfMember } from '#server/dashboard/gate.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { checkKey } from '#server/dashboard/keys/check.ts';
import { chooseKeys, keyRow, KEYS, readKeyFacts } from '#server/dashboard/keys/list.ts';
import { KeyCounter } from '#server/dashboard/keys/key-counter.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { readQuery } from '#server/read/query.ts';
import { unavailable } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';

const STALE = unavailable('Key data');

/** Routes for keys: members manage their account's, administrators all; auditors read them. */
export function keyRoutes(dashboard: Dashboard): ApiRoute[] {
  const { relay, reads } = dashboard;
  const { readModel, pepper } = relay;
  const counter = new KeyCounter(readModel);

  /** These keys as rows of a list. */
  async function describe(
    keys: readonly Key[],
    who: Caller,
  ): Promise<Pick<KeyList, 'data' | 'as_of' | 'position' | 'behind' | 'parked'> | ApiError> {
    if (!readModel.isCurrent()) return STALE;
    const nowMs = readModel.nowMs();
    const read = await withReadSlot(reads, holderOf(who), () =>
      reads.read(KEYS, (client) => readKeyFacts(client, keys, nowMs)),
    );
    if (read instanceof ApiError) return read;
    const data = keys.flatMap((key) => {
      const facts = read.found.get(key.id);
      return facts ? [keyRow(key, readModel.account(key.account)?.name ?? '', facts, new Date(nowMs))] : [];
    });
    return { data, ...read.asOf };
  }

  return [
    route(
      'get',
      '/api/v1/keys',
      'keys:read',
      ANY_ROLE,
      { query: KeysQuery, reply: KeyList },
      async ({ request }, who) => {
        const query = readQuery(KeysQuery, request.url);
        if (query instanceof ApiError) return query;
        const { account } = scopeOfMember(who);
        if (account !== null && query.account !== undefined && query.account !== account)
          return new ApiError('not_found');
        const page = chooseKeys(readModel, account ?? query.account ?? null, query);
        if (page instanceof ApiError) return page;
        const { rows, omitted, next } = page;
        const described = await describe(rows, who);
        if (described instanceof ApiError) return described;
        return { object: 'list', ...described, rows_omitted: omitted, next } satisfies KeyList;
      },
    ),

    route('get', '/api/v1/keys/:key', 'keys:read', ANY_ROLE, { reply: KeyRow }, async ({ params }, who) => {
      const key = findKey(dashboard, who, params);
      if (key instanceof ApiError) return key;
      const described = await describe([key], who);
      if (described instanceof ApiError) return described;
      return described.data[0] ?? new ApiError('not_found');
    }),

    route(
      'post',
      '/api/v1/keys',
      'keys:write',
      CALLERS,
      { body: CreateKey, reply: CreatedKey },
      async ({ body }, who) => {
        const account = readModel.account(body.account ?? who.ownAccount ?? '');
        if (!account || (who.role === 'member' && account.id !== who.ownAccount))
          return new ApiError('not_found', { param: 'account' });
        const { name, expires_at, terms = {} } = body;
        const expiresAt = expires_at === undefined ? null : new Date(expires_at);
        return made(
          await makeChange(dashboard, who, (control) =>
            counter.create(account.id, (existing) =>
              control.createKey(pepper, { account: { id: account.id }, name, expiresAt, terms, existing }),
            ),
          ),
        );
      },
    ),

    route(
      'post',
      '/api/v1/keys/:key/rotate',
      'keys:write',
      CALLERS,
      { body: RotateKey, reply: CreatedKey },
      async ({ body, params }, who) => {
        const key = findKey(dashboard, who, params);
        if (key instanceof ApiError) return key;
        return made(
          await makeChange(dashboard, who, (control) =>
            control.rotateKey(pepper, key.id, body.overlap_s * 1_000, body.rotation),
          ),
        );
      },
    ),

    route(
      'post',
      '/api/v1/keys/:key/leaked',
      'keys:write',
      CALLERS,
      { reply: CreatedKey },
      async ({ params }, who) => {
        const key = findKey(dashboard, who, params);
        if (key instanceof ApiError) return key;
        return made(await makeChange(dashboard, who, (control) => control.replaceLeaked(pepper, key.id)));
      },
    ),

    route(
      'post',
      '/api/v1/keys/:key/revoke',
      'keys:write',
      CALLERS,
      { reply: ChangeReply },
      async ({ params }, who) => {
        const key = findKey(dashboard, who, params);
        return key instanceof ApiError
          ? key
          : makeChange(dashboard, who, (control) => control.revokeKey(key.id));
      },
    ),

    route(
      'patch',
      '/api/v1/keys/:key',
      'keys:write',
      CALLERS,
      { body: ChangeKey, reply: ChangeReply },
      async ({ body, params }, who) => {
        const key = findKey(dashboard, who, params);
        if (key instanceof ApiError) return key;
        const { name, terms, expires_at, windows } = body;
        const expiresAt = typeof expires_at === 'string' ? new Date(expires_at) : expires_at;
        const isRestriction = terms !== undefined || expires_at !== undefined || windows === 'reset';
        const restriction = { set: terms ?? {}, drop: [], clear: terms !== undefined, expiresAt, windows };
        return makeChange(dashboard, who, (control) =>
          control.changeKey(key.id, {
            ...(name === undefined ? {} : { name }),
            ...(isRestriction ? { restriction } : {}),
          }),
        );
      },
    ),

    route(
      'post',
      '/api/v1/keys/:key/check',
      'keys:read',
      ANY_ROLE,
      { body: CheckKey, reply: KeyCheckResult },
      async ({ body, params }, who) => {
        const key = findKey(dashboard, who, params);
        if (key instanceof ApiError) return key;
        if (!readModel.isCurrent()) return STALE;
        if (body.address !== undefined && isIP(body.address) === 0)
          return new ApiError('invalid_value', {
            message: '"address": must be an IP address.',
            param: 'address',
          });
        return withReadSlot(reads, holderOf(who), () => checkKey(relay, key, body));
      },
    ),
  ];
}

function made(change: Omit<CreatedKey, 'object'> | ApiError): CreatedKey | ApiError {
  return change instanceof ApiError
    ? change
    : { object: 'key', id: change.id, secret: change.secret, event: change.event };
}
