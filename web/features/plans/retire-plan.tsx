import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api.ts';
import { accountsQuery } from '../../lib/names.ts';
import { plansQuery } from '../../lib/plans.ts';
import { showCount } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';

const NAMED_MAX = 10;

/** Ends a plan for good, after it was said whose calls that stops. */
export function RetirePlan({ plan: { name, accounts }, onClose }: { plan: PlanRow; onClose: () => void }) {
  const { data = [] } = useQuery(accountsQuery);
  const on = data.filter(({ plan }) => plan === name).slice(0, NAMED_MAX);
  const retire = useChange(() => api<Change>('POST', `/api/plans/${encodeURIComponent(name)}/retire`), {
    done: `Plan ${name} retired.`,
    altered: [plansQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={`Retire plan ${name}?`}>
      <div className="flex flex-col gap-3">
        <p>This is for good: the plan can't be changed or used again, and its name is not given again.</p>
        {accounts === 0 ? (
          <p>No account is on it, so no call is affected.</p>
        ) : (
          <div className="rounded-lg border border-warn bg-warn-soft px-3 py-2.5">
            <p className="text-warn">
              {showCount(accounts)} {accounts === 1 ? 'account is' : 'accounts are'} on it. All of their calls
              are refused with 403 <code className="font-mono text-xs">plan_not_active</code> at once, and
              replies that run end with an error, until {accounts === 1 ? 'it is' : 'they are'} put on another
              plan.{' '}
              <Link to="/admin/accounts" search={{ plan: name }} className="underline">
                Move {accounts === 1 ? 'it' : 'them'} first
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
                <li className="list-none text-muted">and {showCount(accounts - on.length)} more</li>
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
