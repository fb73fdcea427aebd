import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';

const NAMED_MAX = 10;

/** Retires a plan permanently, after listing the affected accounts. */
export function RetirePlan({ plan: { name, accounts }, onClose }: { plan: PlanRow; onClose: () => void }) {
  const { data = [] } = useQuery(accountsQuery);
  const on = data.filter(({ plan }) => plan === name).slice(0, NAMED_MAX);
  const retire = useChange(() => api<Change>('POST', `/api/v1/plans/${encodeURIComponent(name)}/retire`), {
    done: `Plan ${name} retired.`,
    invalidates: [plansQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={`Retire plan ${name}?`}>
      <div className="flex flex-col gap-3">
        <p>This can’t be undone. The plan can’t be edited or assigned again, and its name can’t be reused.</p>
        {accounts === 0 ? (
          <p>No accounts use this plan.</p>
        ) : (
          <div className="rounded-lg border border-warn bg-warn-soft px-3 py-2.5">
            <p className="text-warn">
              {showCounted(accounts, 'account')} {accounts === 1 ? 'uses' : 'use'} this plan. Their requests
              are rejected with 403 <code className="font-mono text-xs">plan_not_active</code> and running
              requests end, until you move {accounts === 1 ? 'it' : 'them'} to another plan.{' '}
              <Link to="/admin/accounts" search={{ plan: name }} className="underline">
                View {accounts === 1 ? 'account' : 'accounts'}
              </Link>
              .
            </p>
            <ul className="mt-2 list-inside list-disc">
              {on.map(({ id, name: account }) => (
                <li key={id} className="break-words">
                  {account}
                </li>
              ))}
              {accounts > on.length && on.length > 0 && (
                <li className="list-none text-muted">{showCount(accounts - on.length)} more</li>
              )}
            </ul>
          </div>
        )}
        <FormProblem error={retire.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={retire.isPending} onClick={() => retire.mutate()}>
          Retire plan
        </Button>
      </DialogActions>
    </Dialog>
  );
}
