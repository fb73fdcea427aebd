import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { Suspense, useState } from 'react';
import type { AccountSearch } from '../../lib/search/accounts.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { withoutBlanks } from '../../lib/search/params.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { accountListQuery } from './account-queries.ts';
import { AccountFilter, type Order } from './account-filter.tsx';
import { AccountTable } from './account-table.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

const AccountDialog = lazyPart(() => import('./account-dialog.tsx'), 'AccountDialog');
const CreateAccount = lazyPart(() => import('./create-account.tsx'), 'CreateAccount');

export function AccountsPage() {
  const search = useSearch({ from: '/inside/admin/accounts' });
  const navigate = useNavigate({ from: '/admin/accounts' });
  const isAdministrator = useIsAdministrator();
  const all = useQuery(accountListQuery(''));
  const omitted = all.data?.rows_omitted ?? 0;
  // The server is searched only when the list does not hold every account.
  const list = useQuery({
    ...accountListQuery(omitted > 0 ? (search.name ?? '') : ''),
    placeholderData: keepPreviousData,
  });
  const [order, setOrder] = useState<Order>('name');
  const [isCreating, setCreating] = useState(false);
  useNotices(['account.', 'plan.', 'key.', 'member.'], [accountsQuery.queryKey, plansQuery.queryKey]);
  useShortcuts(isAdministrator ? { n: () => setCreating(true) } : {});
  const narrow = (change: { [Field in keyof AccountSearch]: AccountSearch[Field] | undefined }): void =>
    void navigate({ search: (before) => withoutBlanks({ ...before, ...change }), replace: true });
  return (
    <>
      <PageHead
        title="Accounts"
        about="Accounts own API keys, limits and usage. Figures cover the current month (UTC)."
      >
        {isAdministrator && (
          <Button look="primary" icon="plus" onClick={() => setCreating(true)} title="n">
            Create account
          </Button>
        )}
      </PageHead>
      <Card flush>
        <Loaded query={list} title="Couldn’t load accounts" height="h-96">
          {({ data, rows_omitted: more, behind }) => (
            <>
              <AccountFilter
                accounts={data}
                search={search}
                onChange={narrow}
                order={order}
                onOrder={setOrder}
              />
              <AccountTable
                accounts={data}
                search={search}
                order={order}
                onOpen={(account) => narrow({ account })}
                onClear={() => narrow({ name: undefined, plan: undefined })}
                omitted={more}
                behind={behind}
              />
            </>
          )}
        </Loaded>
      </Card>
      <Suspense>
        {search.account !== undefined && (
          <AccountDialog
            key={search.account}
            id={search.account}
            onClose={() => narrow({ account: undefined })}
          />
        )}
        {isCreating && (
          <CreateAccount onClose={() => setCreating(false)} onCreated={(account) => narrow({ account })} />
        )}
      </Suspense>
    </>
  );
}
