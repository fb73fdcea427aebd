import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog/dialog.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { ChangesList } from '../../ui/terms/changes-list.tsx';
import { termsChanges } from '../../ui/terms/changes.ts';
import { type WindowsChoice, WindowsField } from '../../ui/form/windows-choice.tsx';
import { PlanField } from './plan-field.tsx';
import { type StepProps, useAccountChange } from './use-account-change.ts';

/** Moves an account to another plan, or to none. */
export function ChangePlan({ account: { id, plan: now, override }, onBack, onDone }: StepProps) {
  const { data: plans = [] } = useQuery(plansQuery);
  const [plan, setPlan] = useState(now);
  const [windows, setWindows] = useState<WindowsChoice>('keep');
  const put = useAccountChange(
    () => api<Change>('PUT', `/api/v1/accounts/${id}/plan`, { plan, windows }),
    'Plan changed.',
    onDone,
  );
  const termsOf = (name: string | null) => ({
    ...plans.find((each) => each.name === name)?.terms,
    ...override,
  });
  return (
    <form
      className="flex flex-col gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        put.mutate();
      }}
    >
      <PlanField plans={plans} value={plan} onChange={setPlan} error={fieldError(put.error, 'plan')} />
      <WindowsField value={windows} onChange={setWindows} />
      <ChangesList
        changes={termsChanges(termsOf(now), termsOf(plan))}
        windows={windows}
        none={plan === now ? 'This is the current plan.' : 'Both plans have the same limits.'}
      />
      {override !== null && (
        <p className="text-muted">
          The plan override stays in effect and takes precedence over the new plan.
        </p>
      )}
      <FormProblem error={put.error} fields={['plan']} />
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button
          type="submit"
          look="primary"
          disabled={plan === now && windows === 'keep'}
          busy={put.isPending}
        >
          Change plan
        </Button>
      </DialogActions>
    </form>
  );
}
