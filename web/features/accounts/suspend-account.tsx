import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api.ts';
import { showCount } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { type StepProps, useAccountChange } from './use-account-change.ts';

/** Stops an account's calls, after it was said what that does. */
export function SuspendAccount({ account: { id, name, keys, members }, onBack, onDone }: StepProps) {
  const suspend = useAccountChange(
    () => api<Change>('POST', `/api/accounts/${id}/suspend`),
    `Account ${name} suspended.`,
    onDone,
  );
  return (
    <div className="flex flex-col gap-3">
      <ul className="flex list-disc flex-col gap-1.5 pl-5">
        <li>
          Calls with {keys === 1 ? 'its key' : `its ${showCount(keys)} keys`} are refused with 403{' '}
          <code className="font-mono text-xs">account_disabled</code>, on every server within a second.
        </li>
        <li>Replies that run end at once with an error; what they used until then is charged.</li>
        <li>
          {members === 0
            ? 'It has no members.'
            : `${members === 1 ? 'Its member' : `Its ${showCount(members)} members`} can still sign in and look, and are told that it is suspended.`}
        </li>
        <li>Keys, figures and events stay as they are. Reinstating undoes it.</li>
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
    () => api<Change>('POST', `/api/accounts/${id}/reinstate`),
    `Account ${name} reinstated.`,
    onDone,
  );
  return (
    <div className="flex flex-col gap-3">
      <p>Its keys are good again at once, within what its plan and its own terms let it use.</p>
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
