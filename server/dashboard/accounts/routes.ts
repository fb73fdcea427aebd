import { ChangeReply } from '#server/contract/parts.ts';
import {
  AccountList,
  AccountRow,
  AccountsQuery,
  AdjustUsage,
  AdjustmentList,
  CreateAccount,
  PutOverride,
  PutParent,
  PutPlan,
  TopUp,
  TopUpList,
  CreatedAccount,
} from '#server/contract/accounts.ts';
import type { Account } from '#db/fold/account.ts';
import { ADJUSTMENTS, listAdjustments } from '#server/dashboard/accounts/adjustments.ts';
import { listTopUps } from '#server/dashboard/accounts/top-ups.ts';
import { accountRows, ACCOUNTS, chooseAccounts, readAccountFacts } from '#server/dashboard/accounts/list.ts';
import { parseId, makeChange } from '#server/dashboard/change.ts';
import type { Change } from '#server/contract/keys.ts';
import type { Control } from '#server/control/control.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, ADMINISTRATORS_AND_AUDITORS, route } from '#server/dashboard/gate.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { reportUsage } from '#server/read/limits.ts';
import { readQuery } from '#server/read/query.ts';
import { unavailable } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';

const STALE = unavailable('Account data');

/** Routes for accounts: administrators manage them, auditors read them. */
export function accountRoutes(dashboard: Dashboard): ApiRoute[] {
  const { relay, reads } = dashboard;
  const { readModel } = relay;

  async function describe(
    accounts: readonly Account[],
    who: Caller,
  ): Promise<Omit<AccountList, 'object' | 'rows_omitted' | 'next'> | ApiError> {
    if (!readModel.isCurrent()) return STALE;
    const nowMs = readModel.nowMs();
    const read = await withReadSlot(reads, holderOf(who), () =>
      reads.read(ACCOUNTS, (client) => readAccountFacts(client, accounts, nowMs)),
    );
    if (read instanceof ApiError) return read;
    return { data: accountRows(readModel, accounts, read.found, new Date(nowMs)), ...read.asOf };
  }

  /** Changes the account that the route names. */
  async function change(
    params: Readonly<Record<string, string>>,
    who: Caller,
    use: (control: Control, account: { id: string }) => Promise<Change>,
  ): Promise<Change | ApiError> {
    const id = parseId(params, 'account');
    return id instanceof ApiError ? id : makeChange(dashboard, who, (control) => use(control, { id }));
  }

  return [
    route(
      'get',
      '/api/v1/accounts',
      'accounts:read',
      ADMINISTRATORS_AND_AUDITORS,
      { query: AccountsQuery, reply: AccountList },
      async ({ request }, who) => {
        const query = readQuery(AccountsQuery, request.url);
        if (query instanceof ApiError) return query;
        const page = chooseAccounts(readModel, query);
        if (page instanceof ApiError) return page;
        const { rows, omitted, next } = page;
        const described = await describe(rows, who);
        if (described instanceof ApiError) return described;
        return { object: 'list', ...described, rows_omitted: omitted, next } satisfies AccountList;
      },
    ),

    route(
      'get',
      '/api/v1/accounts/:account',
      'accounts:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: AccountRow },
      async ({ params }, who) => {
        const account = readModel.account(params['account'] ?? '');
        if (!account) return new ApiError('not_found');
        const described = await describe([account], who);
        if (described instanceof ApiError) return described;
        return described.data[0] ?? new ApiError('not_found');
      },
    ),

    route(
      'post',
      '/api/v1/accounts',
      'accounts:write',
      ADMINISTRATORS,
      { body: CreateAccount, reply: CreatedAccount },
      async ({ body }, who) => {
        const made = await makeChange(dashboard, who, (control) =>
          control.createAccount(body.name, body.plan),
        );
        return made instanceof ApiError ? made : { object: 'account', id: made.id, event: made.event };
      },
    ),

    route(
      'post',
      '/api/v1/accounts/:account/suspend',
      'accounts:write',
      ADMINISTRATORS,
      { reply: ChangeReply },
      ({ params }, who) => change(params, who, (control, account) => control.suspendAccount(account)),
    ),

    route(
      'post',
      '/api/v1/accounts/:account/reinstate',
      'accounts:write',
      ADMINISTRATORS,
      { reply: ChangeReply },
      ({ params }, who) => change(params, who, (control, account) => control.reinstateAccount(account)),
    ),

    route(
      'put',
      '/api/v1/accounts/:account/plan',
      'accounts:write',
      ADMINISTRATORS,
      { body: PutPlan, reply: ChangeReply },
      ({ body, params }, who) =>
        change(params, who, (control, account) => control.setPlan(account, body.plan, body.windows)),
    ),

    route(
      'put',
      '/api/v1/accounts/:account/parent',
      'accounts:write',
      ADMINISTRATORS,
      { body: PutParent, reply: ChangeReply },
      async ({ body, params }, who) => {
        const parent = body.parent === null ? null : readModel.account(body.parent);
        if (parent === undefined) return new ApiError('not_found', { param: 'parent' });
        return change(params, who, (control, account) => control.setParent(account, parent?.name ?? null));
      },
    ),

    route(
      'post',
      '/api/v1/accounts/:account/top-ups',
      'usage:write',
      ADMINISTRATORS,
      { body: TopUp, reply: ChangeReply },
      ({ body, params }, who) =>
        change(params, who, (control, account) =>
          control.topUp(account, { amount: body.amount_nanousd, reference: body.reference }),
        ),
    ),

    route(
      'get',
      '/api/v1/accounts/:account/top-ups',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: TopUpList },
      async ({ params }, who) => {
        const account = readModel.account(params['account'] ?? '');
        if (!account) return new ApiError('not_found');
        const read = await withReadSlot(reads, holderOf(who), () =>
          reads.read(ADJUSTMENTS, (client) => listTopUps(client, account.id)),
        );
        return read instanceof ApiError ? read : read.found;
      },
    ),

    route(
      'put',
      '/api/v1/accounts/:account/override',
      'accounts:write',
      ADMINISTRATORS,
      { body: PutOverride, reply: ChangeReply },
      ({ body, params }, who) =>
        change(params, who, (control, account) => control.overrideTerms(account, body.terms, body.windows)),
    ),

    route(
      'get',
      '/api/v1/accounts/:account/adjustments',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: AdjustmentList },
      async ({ params }, who) => {
        const account = readModel.account(params['account'] ?? '');
        if (!account) return new ApiError('not_found');
        const read = await withReadSlot(reads, holderOf(who), () =>
          reads.read(ADJUSTMENTS, (client) => listAdjustments(client, account.id)),
        );
        return read instanceof ApiError ? read : read.found;
      },
    ),

    route(
      'post',
      '/api/v1/accounts/:account/adjustments',
      'usage:write',
      ADMINISTRATORS,
      { body: AdjustUsage, reply: ChangeReply },
      async ({ body, params }, who) => {
        const account = readModel.account(params['account'] ?? '');
        // Only reported usage can be given back, and the page shows usage of a moment ago.
        if (account && body.amount < 0) await reportUsage(relay, account);
        return change(params, who, (control, id) =>
          control.adjustQuotas(id, {
            ...body,
            window: body.window ?? null,
            key: body.key ?? null,
          }),
        );
      },
    ),
  ];
}
