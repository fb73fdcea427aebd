import { useQuery } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import type { PlanRow } from '#server/contract/accounts.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { PlanTable } from './plan-table.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

const EditPlan = lazyPart(() => import('./edit-plan.tsx'), 'EditPlan');
const RetirePlan = lazyPart(() => import('./retire-plan.tsx'), 'RetirePlan');

type Open = { view: 'edit'; plan: PlanRow | null } | { view: 'retire'; plan: PlanRow } | null;

export function PlansPage() {
  const plans = useQuery(plansQuery);
  const isAdministrator = useIsAdministrator();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const define = (): void => setOpen({ view: 'edit', plan: null });
  useNotices(['plan.', 'account.'], [plansQuery.queryKey, accountsQuery.queryKey]);
  useShortcuts(isAdministrator ? { n: define } : {});
  return (
    <>
      <PageHead
        title="Plans"
        about="Models, routes, rate limits and quotas for accounts. Accounts without a plan are unlimited."
      >
        {isAdministrator && (
          <Button look="primary" icon="plus" onClick={define} title="n">
            Create plan
          </Button>
        )}
      </PageHead>
      <Card flush>
        <Loaded query={plans} title="Couldn’t load plans">
          {(rows) => (
            <PlanTable
              plans={rows}
              onEdit={isAdministrator ? (plan) => setOpen({ view: 'edit', plan }) : null}
              onRetire={isAdministrator ? (plan) => setOpen({ view: 'retire', plan }) : null}
            />
          )}
        </Loaded>
      </Card>
      <Suspense>
        {open?.view === 'edit' && (
          <EditPlan plan={open.plan} names={plans.data?.map(({ name }) => name) ?? []} onClose={close} />
        )}
        {open?.view === 'retire' && <RetirePlan plan={open.plan} onClose={close} />}
      </Suspense>
    </>
  );
}
