import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { type StepProps, useAccountChange } from './use-account-change.ts';

/** Suspends an account after listing the consequences. */
export function SuspendAccount({ account: { id, name, keys, members }, onBack, onDone }: StepProps) {
  const suspend = useAccountChange(
    () => api<Change>('POST', `/api/v1/accounts/${id}/suspend`),
    `Account ${name} suspended.`,
    onDone,
  );
  return (
    <div className="flex flex-col gap-3">
      <ul className="flex list-disc flex-col gap-1.5 pl-5">
        <li>
          Requests with {keys === 1 ? 'its key' : `its ${showCount(keys)} keys`} are rejected with 403{' '}
          <code className="font-mono text-xs">account_disabled</code> on every server within a second.
        </li>
        <li>Running requests end immediately with an error. Usage up to that point is charged.</li>
        <li>
          {members === 0
            ? 'The account has no members.'
            : `${showCounted(members, 'member')} can still sign in and see the suspension.`}
        </li>
        <li>Keys, usage and events are kept. You can reinstate the account at any time.</li>
      </ul>
      <FormProblem error={suspend.error} />
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button look="danger" busy={suspend.isPending} onClick={() => suspend.mutate()}>
          Suspend account
        </Button>
      </DialogActions>
    </div>
  );
}

export function ReinstateAccount({ account: { id, name }, onBack, onDone }: StepProps) {
  const reinstate = useAccountChange(
    () => api<Change>('POST', `/api/v1/accounts/${id}/reinstate`),
    `Account ${name} reinstated.`,
    onDone,
  );
  return (
    <div className="flex flex-col gap-3">
      <p>Its keys work again immediately, within the limits of its plan and override.</p>
      <FormProblem error={reinstate.error} />
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button look="primary" busy={reinstate.isPending} onClick={() => reinstate.mutate()}>
          Reinstate account
        </Button>
      </DialogActions>
    </div>
  );
}
